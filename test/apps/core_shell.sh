#!/bin/bash
# test_doc: a bash script with functions, pipes, traps and here documents goes on after a restart.
trap 'hits=$((hits + 1))' USR1
hits=0
f() { local i=$1; echo $((i * i)); }
for i in $(seq 1 "${1:-40}"); do
	s=$((s + $(f "$i")))
	kill -USR1 $$
	for k in $(seq 1 "${1:-40}"0); do t=$((t + k * i)); done
done
cat <<END | tr a-z A-Z
sum $s t $t hits $hits
END
exit 9
