//go:build tools

// Package tools names what this module builds, so that `go mod tidy` keeps it: Helm itself.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
