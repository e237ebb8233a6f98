"""Who may speak to the API server: tokens, kubeconfig files and the key of service accounts."""

import json
import secrets
import subprocess
from pathlib import Path

from testcluster.layout import Layout
from testcluster.network import API_IP, API_PORT

SERVER = f"https://{API_IP}:{API_PORT}"
ADMINS = "system:masters"


def users(numbers: range) -> dict[str, str]:
    """Each user and its group, as the rules that the API server is born with expect them."""
    nodes = {f"system:node:node-{n}": "system:nodes" for n in numbers}
    parts = ["kube-controller-manager", "kube-scheduler", "kube-proxy"]
    return {"admin": ADMINS, "coredns": ADMINS, **{f"system:{p}": "" for p in parts}, **nodes}


def write(where: Layout, numbers: range) -> None:
    """Write every credential anew."""
    groups = users(numbers)
    tokens = {user: secrets.token_hex(16) for user in groups}
    lines = [f'{token},{user},{user},"{groups[user]}"\n' for user, token in tokens.items()]
    private(where.tokens, "".join(lines))
    for user, token in tokens.items():
        private(where.kubeconfig_of(user), json.dumps(kubeconfig(where.ca, token)))
    generate = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout"]
    done = subprocess.run(generate, capture_output=True, text=True, check=True)
    private(where.account_key, done.stdout)


def private(path: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


def kubeconfig(ca: Path, token: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "testcluster",
        "clusters": [
            {
                "name": "testcluster",
                "cluster": {"server": SERVER, "certificate-authority": str(ca)},
            }
        ],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [
            {"name": "testcluster", "context": {"cluster": "testcluster", "user": "user"}}
        ],
    }


def token_of(path: Path) -> str:
    """The token in a kubeconfig file that `write` wrote."""
    return str(json.loads(path.read_text())["users"][0]["user"]["token"])
