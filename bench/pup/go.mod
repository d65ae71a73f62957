// What package pup is measured beside is no dependency of Byssus: the other serializers are in this module alone.
module github.com/byssus-hpc/byssus/bench/pup

go 1.26.0

tool (
	github.com/byssus-hpc/byssus/cmd/pupgen
	github.com/tinylib/msgp
)

require (
	github.com/byssus-hpc/byssus v0.0.0-00010101000000-000000000000
	github.com/fxamacker/cbor/v2 v2.10.0
	github.com/tinylib/msgp v1.6.5
	github.com/vmihailenco/msgpack/v5 v5.4.1
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/klauspost/cpuid/v2 v2.2.9 // indirect
	github.com/minio/crc64nvme v1.1.1 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
)

replace github.com/byssus-hpc/byssus => ../..
