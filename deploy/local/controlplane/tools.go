//go:build tools

// Package controlplane names the programs of the embedded Kubernetes control plane, so that `go mod tidy`
// pins them and everything below them in go.mod and go.sum. There is no Go code of ours: deploy/local/build.py
// builds the imported commands as they are.
package controlplane

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
