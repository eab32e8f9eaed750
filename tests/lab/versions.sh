# shellcheck shell=bash disable=SC2034
# The versions the lab runs. Image tags are the ones kubeadm of $LAB_K8S asks for (`kubeadm config images list`).
LAB_K8S=1.34.4
# What a cluster of the lab is upgraded to: the same programs, which call themselves so. As long as the other, since the
# version is written over it.
LAB_K8S_NEXT=1.34.5
LAB_CONTAINERD=2.2.9
# the line before, which Kubernetes takes up to 1.35
LAB_CONTAINERD_1=1.7.32
LAB_RUNC=1.3.5
LAB_CNI=1.9.1
LAB_ETCD=3.6.5
LAB_ETCD_TAG=3.6.5-0
LAB_COREDNS=1.12.1
LAB_PAUSE=3.10.1
LAB_FLANNEL=0.28.4
# The plugin was built from its old home at 0.9.1; the image carries the name and tag of upstream's.
LAB_FLANNEL_CNI=0.9.1
LAB_FLANNEL_CNI_TAG=v1.9.1-flannel1
LAB_REGISTRY=3.1.2
LAB_HELM=3.22.0
# a referee: it takes the signatures of bundles
LAB_COSIGN=2.6.5
# a referee: it reads the layouts of bundles
LAB_ORAS=1.2.3
# a referee: it reads what was seeded
LAB_CRANE=0.22.1
LAB_SUITE=bookworm
