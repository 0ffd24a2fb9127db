module github.com/patchbay-ai/patchbay

go 1.26.0

toolchain go1.26.9
