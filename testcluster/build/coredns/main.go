// Command coredns is CoreDNS with only the plugins that a test cluster's DNS needs.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order in which a query passes the plugins.
	dnsserver.Directives = []string{"bind", "errors", "ready", "cache", "kubernetes"}
	coremain.Run()
}
