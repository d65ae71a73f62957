// Package pb holds the protobuf form of three models of the benchmarks. models.pb.go is what protoc makes of
// models.proto; it is committed, so that neither a build nor the tests need protoc.
package pb

//go:generate sh protoc.sh
