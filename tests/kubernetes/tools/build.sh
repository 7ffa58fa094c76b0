#!/usr/bin/env bash
# Builds a real control plane for the tests, from Go modules, once: prints the folder with the programs.
#
# KUBEBUILDER_ASSETS, where it is set, names a folder that is used as it is (the convention of envtest). Otherwise they
# go into a cache folder outside of the repository, named after the versions; a second run finds them there. One that
# runs beside another waits for it. With `--where` it only prints the folder.
set -euo pipefail
cd "$(dirname "$0")"

programs="etcd kube-apiserver kube-scheduler kube-controller-manager kwok helm4"
versions="$(cat ./*/go.mod | sha256sum | cut -c1-12)"
folder="${KUBEBUILDER_ASSETS:-${XDG_CACHE_HOME:-$HOME/.cache}/jupyter-gq/cluster-tools-$versions}"
[ "${1:-}" = --where ] && { echo "$folder"; exit; }

look() {
  missing=""
  for program in $programs; do
    [ -x "$folder/$program" ] || missing="$missing $program"
  done
}

look
if [ -n "$missing" ]; then
  if ! command -v go >/dev/null; then
    echo "The Kubernetes tests need Go 1.25 or newer to build:$missing. Install it (https://go.dev/dl), or set" \
         "KUBEBUILDER_ASSETS to a folder that has these programs." >&2
    exit 1
  fi
  mkdir -p "$folder"
  exec 9>"$folder/.lock"
  flock 9
  export CGO_ENABLED=0
fi

build() { # program, module folder, package, linker flags
  [ -x "$folder/$1" ] && return
  echo "Building $1 (once; the first takes some minutes)" >&2
  (cd "$2" && go build -trimpath -ldflags "-s -w ${4:-}" -o "$folder/.$1.new" "$3" && mv "$folder/.$1.new" "$folder/$1")
}

# Without this flag the server says that its version is v0.0.0-master, and clients do not know what it can do.
version="$(sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' control-plane/go.mod)"
[ -n "$version" ] || { echo "No version of k8s.io/kubernetes in control-plane/go.mod" >&2; exit 1; }
stamp="-X k8s.io/component-base/version.gitVersion=$version"
build kube-apiserver control-plane k8s.io/kubernetes/cmd/kube-apiserver "$stamp"
build kube-scheduler control-plane k8s.io/kubernetes/cmd/kube-scheduler "$stamp"
build kube-controller-manager control-plane k8s.io/kubernetes/cmd/kube-controller-manager "$stamp"
build etcd etcd go.etcd.io/etcd/server/v3
build kwok kwok sigs.k8s.io/kwok/cmd/kwok
build helm4 helm helm.sh/helm/v4/cmd/helm
echo "$folder"
