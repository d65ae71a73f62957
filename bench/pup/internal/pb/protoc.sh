#!/bin/sh
# Writes models.pb.go anew, with the version of protoc-gen-go that go.mod names. Needs protoc (Debian: protobuf-compiler);
# without it, the committed file stays.
set -eu
if ! command -v protoc >/dev/null; then
	echo "protoc is not installed: models.pb.go stays as it is" >&2
	exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
protoc --plugin="$dir/protoc-gen-go" --go_out=. --go_opt=paths=source_relative models.proto
