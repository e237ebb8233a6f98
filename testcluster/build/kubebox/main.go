// Command kubebox holds the parts of a Kubernetes cluster in one binary: they share most of their code. The name it
// is called by, or else its first argument, picks the part.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

const exitUsage = 64

// parts maps each part's name to what runs it with the arguments in os.Args.
var parts = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          cobraPart(apiserver.NewAPIServerCommand),
	"kube-controller-manager": cobraPart(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          cobraPart(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              cobraPart(proxy.NewProxyCommand),
	"kubectl":                 cobraPart(kubectl.NewDefaultKubectlCommand),
	"kubelet":                 cobraPart(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
}

func cobraPart(command func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(command())) }
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, called := parts[name]; !called && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	run, known := parts[name]
	if !known {
		names := slices.Sorted(maps.Keys(parts))
		fmt.Fprintf(os.Stderr, "kubebox: no part is named %q; the parts are %s\n", name, strings.Join(names, ", "))
		os.Exit(exitUsage)
	}
	run()
}
