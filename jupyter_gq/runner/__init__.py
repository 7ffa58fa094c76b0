"""Inside a training workload: execute the cells, stream their outputs, stop in an orderly way."""
