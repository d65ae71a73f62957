# test_doc: python3 with threads, imports, generators, files and a subprocess goes on after a restart.
import collections, hashlib, json, queue, subprocess, sys, threading, time
import xml.etree.ElementTree, decimal, asyncio, ctypes, sqlite3, random

random.seed(7)
q, done = queue.Queue(), queue.Queue()

def work(n):
    local = hashlib.sha256()
    while True:
        item = q.get()
        if item is None:
            break
        for _ in range(200):
            local.update(item)
        done.put((n, len(item)))

threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads:
    t.start()
count = collections.Counter()
db = sqlite3.connect(":memory:")
db.execute("create table t (k integer, v real)")
for i in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1200):
    q.put(bytes(random.randrange(256) for _ in range(100 + i % 50)))
    count[random.randrange(10)] += 1
    db.execute("insert into t values (?, ?)", (i, i * 0.5))
    if i % 300 == 0:
        print(subprocess.run(["echo", "child", str(i)], capture_output=True, text=True).stdout.strip(), flush=True)
    if i % 100 == 0:
        time.sleep(0.03)

async def ticks():
    for _ in range(10):
        await asyncio.sleep(0.02)
    return "ticked"

print(asyncio.run(ticks()))
for t in threads:
    q.put(None)
for t in threads:
    t.join()
total = 0
while not done.empty():
    total += done.get()[1]
print(total, json.dumps(sorted(count.items())), db.execute("select sum(v) from t").fetchone()[0])
