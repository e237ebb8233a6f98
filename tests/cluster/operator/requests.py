"""A request to the API server, as its authorization sees it."""

from dataclasses import dataclass
from urllib.parse import parse_qs

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
WRITES = frozenset(VERBS.values())


@dataclass(frozen=True)
class Request:
    verb: str
    group: str
    resource: str
    """With its subresource; empty where the path is no object's, as that of discovery."""
    namespace: str
    name: str
    selector: str
    status: int = 0
    """Of the answer; 0 while there is none."""
    size: int = 0
    """Bytes that were sent."""

    @property
    def is_write(self):
        return self.verb in WRITES

    @property
    def rights(self):
        """What the role must allow; server-side apply of something new needs two rights."""
        needed = (
            {self.verb, "create"} if (self.verb, self.status) == ("patch", 201) else {self.verb}
        )
        return {(verb, self.group, self.resource) for verb in needed}


def parse(method, path, query):
    """From a request line; `query` without its question mark."""
    asked = {name: values[0] for name, values in parse_qs(query).items()}
    group, rest = _split(path.strip("/").split("/"))
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, *below = [*rest, "", ""][: max(2, len(rest))]
    if method == "GET":
        verb = "watch" if asked.get("watch") in ("1", "true") else "get" if name else "list"
    else:
        verb = VERBS[method]
    return Request(
        verb=verb,
        group=group,
        resource="/".join([resource, *below]),
        namespace=namespace,
        name=name,
        selector=asked.get("labelSelector", ""),
    )


def _split(parts):
    """The group, and what follows its version."""
    if parts[0] == "api":
        return "", parts[2:]
    return (parts[1], parts[3:]) if parts[0] == "apis" and len(parts) > 2 else ("", [])
