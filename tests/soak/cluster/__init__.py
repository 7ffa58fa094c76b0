"""The soak test on a cluster: a real control plane, the chart with two replicas, nodes whose pods are processes."""
