#!/usr/bin/env bash
# Builds a real control plane for the tests, from Go modules, once: prints the folder with the programs.
#
# KUBEBUILDER_ASSETS, where it is set, names a folder that is used as it is (the convention of envtest). Otherwise they
# go into a cache folder outside of the repository, named after the versions; a second run finds them there. One that
# runs beside another waits for it. With `--where` it only prints the folder.
set -euo pipefail
cd "$(dirname "$0")"

programs="etcd kube-apiserver kube-scheduler kube-controller-manager kwok helm4"
versions="$(sha256sum < go.mod | cut -c1-12)"
folder="${KUBEBUILDER_ASSETS:-${XDG_CACHE_HOME:-$HOME/.cache}/jupyter-gq/cluster-tools-$versions}"
[ "${1:-}" = --where ] && { echo "$folder"; exit; }

package_of() { # program
  case "$1" in
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    kwok) echo sigs.k8s.io/kwok/cmd/kwok ;;
    helm4) echo helm.sh/helm/v4/cmd/helm ;;
    *) echo "k8s.io/kubernetes/cmd/$1" ;;
  esac
}

built_name_of() { # program; Go names a program after its package
  case "$1" in
    etcd) echo server ;;
    helm4) echo helm ;;
    *) echo "$1" ;;
  esac
}

look() {
  missing=""
  for program in $programs; do
    [ -x "$folder/$program" ] || missing="$missing $program"
  done
}

# All in one command: what several need is compiled once, and programs are linked side by side. See
# docs/decisions/0350-build-the-programs-of-a-cluster-from-one-module.md. Without the version the server says that it is
# v0.0.0-master, and clients do not know what it can do. Symbols for debuggers are left out (-s -w). Not to compute them
# spares a sixth of the compiler's time, and another fifth is spared by a compiler that collects its garbage less often.
build() {
  local version packages=() new="$folder/.new"
  version="$(sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' go.mod)"
  [ -n "$version" ] || { echo "No version of k8s.io/kubernetes in $PWD/go.mod" >&2; exit 1; }
  for program in $missing; do packages+=("$(package_of "$program")"); done
  echo "Building$missing (once; it takes some minutes)" >&2
  rm -rf "$new"
  mkdir "$new"
  CGO_ENABLED=0 GOGC=400 go build -trimpath -gcflags=all=-dwarf=false -o "$new/" \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" "${packages[@]}"
  for program in $missing; do mv "$new/$(built_name_of "$program")" "$folder/$program"; done
  rmdir "$new"
}

look
if [ -n "$missing" ]; then
  if ! command -v go >/dev/null; then
    echo "The Kubernetes tests need Go 1.26 or newer to build:$missing. Install it (https://go.dev/dl), or set" \
         "KUBEBUILDER_ASSETS to a folder that has these programs." >&2
    exit 1
  fi
  mkdir -p "$folder"
  exec 9>"$folder/.lock"
  flock 9
  look
  [ -z "$missing" ] || build
fi
echo "$folder"
