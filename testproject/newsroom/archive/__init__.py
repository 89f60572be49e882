"""The newspaper's archive: a gRPC service of its own, whose methods are tools of the newsroom."""
