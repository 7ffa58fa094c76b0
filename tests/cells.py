"""Cells that jobs run in the tests of several tiers."""

#: Begins a cell that keeps a number in a file: who reads it, and a run that is killed, never meet half of it.
KEEPS = """
def keep(file, number):
    new = file.with_name(file.name + ".new")
    new.write_text(str(number))
    new.replace(file)
"""
#: Trains until it is told to stop, and says from which epoch until which. What was resumed trains one epoch more.
TRAINS = f"""{KEEPS}
import jupyter_gq, time
at = jupyter_gq.checkpoint_dir() / "epoch"
start = int(at.read_text()) if at.exists() else 0
print("from", start, flush=True)
for epoch in range(start, 100_000):
    keep(at, epoch + 1)
    if start or jupyter_gq.should_stop():
        break
    time.sleep(0.01)
print("until", epoch + 1)
"""
#: Of a gang of two: meets the other task at the address that both were told; rank 0 says whom it met.
MEETS = """
import os, socket, time
rank, place = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as server:
        other, _ = server.accept()
        print("met", other.recv(100).decode(), "of", os.environ["WORLD_SIZE"], flush=True)
else:
    while True:
        try:
            with socket.create_connection(place) as there:
                there.sendall(f"rank {rank}".encode())
            break
        except OSError:
            time.sleep(0.05)
"""
#: Of an elastic job: stands in for torchrun, and reads the same variables. Task 0 hosts the meeting. Each task says
#: how many have met, and again when one has joined or left, as long as there are enough.
MEETS_AGAIN = """
import os, socket, threading, time
least, most = map(int, os.environ["PET_NNODES"].split(":"))
host, port = os.environ["PET_RDZV_ENDPOINT"].split(":")
hello = os.environ["PET_RDZV_ID"].encode().ljust(100)
assert os.environ["PET_RDZV_BACKEND"] == "c10d"
members, lock = [], threading.Lock()

def tell():
    for member in members if least <= len(members) <= most else ():
        try:
            member.sendall(f"group of {len(members)}\\n".encode())
        except OSError:
            pass  # it leaves, which is heard next

def attend(member):
    if member.recv(100) != hello:
        return member.close()
    with lock:
        members.append(member)
        tell()
    try:
        member.recv(1)
    except OSError:
        pass
    with lock:
        members.remove(member)
        tell()

def serve(server):
    while True:
        threading.Thread(target=attend, args=(server.accept()[0],), daemon=True).start()

if os.environ["PET_RDZV_CONF"] == "is_host=true":
    threading.Thread(target=serve, args=(socket.create_server((host, int(port))),), daemon=True).start()
while True:
    try:
        there = socket.create_connection((host, int(port)))
        break
    except OSError:
        time.sleep(0.05)
there.sendall(hello)
for line in there.makefile():
    print(line.strip(), flush=True)
"""
