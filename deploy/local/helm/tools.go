//go:build tools

// Package helm names the Helm command, so that `go mod tidy` pins it and everything below it in go.mod and go.sum.
// It is a module of its own because Helm and the control plane need different versions of the Kubernetes libraries.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
