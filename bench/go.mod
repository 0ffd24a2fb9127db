module github.com/patchbay-ai/patchbay/bench

go 1.26.0
