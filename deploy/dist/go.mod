module github.com/patchbay-ai/patchbay/deploy/dist

go 1.26.0
