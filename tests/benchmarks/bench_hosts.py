"""Lists of hosts: time and memory to read five million domains, and documents a CPU-second.

Beside a set of the same domains in Python, which looks up the endings of each host.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.hosts.addresses import parse_address
from jprep.corpus.signals.hosts.signal import HostsSignal

DOMAINS = 5_000_000
DOCUMENTS = 200_000
BATCH = 1_000


def domain(number: int) -> str:
    return f"site{number * 2654435761 % 2**32:x}.example{number % 7}.jp"


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    docs = [Document(str(n), "s", "", f"https://www.{domain(n * 50)}/page/{n}.html", "") for n in range(DOCUMENTS)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "adult"
        path.mkdir()
        with (path / "domains").open("w") as stream:
            stream.writelines(f"{domain(number)}\n" for number in range(DOMAINS))
        before, begun = peak(), time.process_time()
        signal = HostsSignal(HostsSignal.Config(lists=(str(path),)))
        signal.measure(TextBatch(docs[:1]))
        print(
            f"jprep, reading {DOMAINS:,} domains  {time.process_time() - begun:6.1f} s  {peak() - before:6.0f} MiB more"
        )
        begun = time.process_time()
        listed = sum(
            int(signal.measure(TextBatch(docs[at : at + BATCH]))["listed_adult"].sum())
            for at in range(0, DOCUMENTS, BATCH)
        )
        print(f"jprep, documents a CPU-second {DOCUMENTS / (time.process_time() - begun):12,.0f}  listed {listed:,}")
        before, begun = peak(), time.process_time()
        known = set((path / "domains").read_text().split("\n"))
        print(
            f"a set of Python, reading            {time.process_time() - begun:6.1f} s  {peak() - before:6.0f} MiB more"
        )
    begun, listed = time.process_time(), 0
    for doc in docs:
        labels = parse_address(doc.url).host.split(".")
        listed += any(".".join(labels[start:]) in known for start in range(len(labels)))
    print(f"a set, documents a CPU-second {DOCUMENTS / (time.process_time() - begun):12,.0f}  listed {listed:,}")


if __name__ == "__main__":
    main()
