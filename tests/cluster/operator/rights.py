"""The right to nodes, which the chart gives the operator with `nodes.manage`."""

ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "nodes-of-the-operator"},
    "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "nodes-of-the-operator"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "nodes-of-the-operator",
    },
    "subjects": [
        {"kind": "ServiceAccount", "name": "diffusion-operator", "namespace": "diffusion-system"}
    ],
}
NODE_RIGHTS = (ROLE, BINDING)
