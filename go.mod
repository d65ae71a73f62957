module github.com/byssus-hpc/byssus

go 1.26
