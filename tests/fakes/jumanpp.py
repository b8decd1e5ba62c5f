"""A stand-in for Juman++: takes its options, behaves as it does on every kind of input, and can be told to misbehave.

Its words are not Juman++'s: it cuts where the kind of character changes. Never measure anything by it.

    --fake-words=FILE   JSON {line: words} to answer with instead, joined by U+001F
    --fake-log=FILE     append every line that it is sent
    --fake-fault=NAME   what to do at each line that holds 罠; see `FAULTS`
    --fake-life=N       die after N lines
"""

import json
import os
import re
import sys
import time
from pathlib import Path

MODEL = b"fake jumanpp model"
TRAP = "罠"
KAOMOJI = "(^ ^)"
WORD = re.compile(r"\(\^ \^\)|[ぁ-ゟ]+|[゠-ヿ]+|[一-鿿]+|[A-Za-z]+|\d+|👨[\u200d👩👧👦]*|.", re.S)
EXPLODES = re.compile(r"[゠-ヿ]{400}|[一-鿿]{400}|[A-Za-z]{400}")


def fault_hang(answer):
    time.sleep(3600)


def fault_die(answer):
    os._exit(134)


def fault_drop(answer):
    return b""


def fault_double(answer):
    return answer * 2


def fault_change(answer):
    return answer.replace(TRAP.encode(), "穴".encode())


def fault_garbage(answer):
    return b"\xff\x1f" + answer


def fault_memory(answer):
    try:
        return answer + b"\0" * (4 << 30)
    except MemoryError:
        os._exit(134)


def fault_flood(answer):
    while True:
        sys.stdout.buffer.write(answer)


def fault_stderr(answer):
    for _ in range(2000):
        sys.stderr.write("警告" * 500 + "\n")
    return answer


FAULTS = {name.removeprefix("fault_"): call for name, call in globals().items() if name.startswith("fault_")}


def main():
    options, files = {}, []
    for arg in sys.argv[1:]:
        name, _, value = arg.partition("=")
        if name.startswith("-"):
            options[name] = value
        else:
            files.append(arg)
    if "-v" in options:
        print("Juman++ Version: 2.0.0-fake / Dictionary: 20000101-fake / LM: fake")
        return 0
    check_model(options.get("--model"))
    while files and not Path(files[0]).exists():
        sys.stderr.write("failed to read an example\n")
    return Analyser(options).run()


def check_model(path):
    if path is None:
        sys.exit("Model file was not specified")
    if not Path(path).read_bytes().startswith(MODEL):
        sys.exit(f"failed to load model from disk: InvalidState: model file {path} has corrupted header")


class Analyser:
    def __init__(self, options):
        self.segment = "--segment" in options
        self.separator = options.get("--segment-separator", " ")
        self.fault = FAULTS.get(options.get("--fake-fault"))
        self.life = int(options.get("--fake-life", 1 << 60))
        self.log = options.get("--fake-log")
        known = options.get("--fake-words")
        self.words = json.loads(Path(known).read_text(encoding="utf-8")) if known else {}

    def run(self):
        code, comment = 0, b""
        for line in self.lines():
            if len(line) > 2 and line.startswith(b"# "):
                comment = line
            else:
                code, comment = self.one(line, comment), b""
        return code

    def lines(self):
        for line in sys.stdin.buffer:
            if self.log:
                with Path(self.log).open("ab") as log:
                    log.write(line)
            yield line.removesuffix(b"\n")

    def one(self, line, comment):
        if len(comment) > 1024 or len(line) > 65535:
            complain(f"failed to read an example: InvalidParameter: size {max(len(line), len(comment))}")
            return 1
        answer = self.analyze(line)
        self.life -= 1
        if self.life < 0:
            os._exit(134)
        if self.fault and TRAP.encode() in line:
            answer = self.fault(answer)
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
        return 0

    def analyze(self, line):
        empty = b"" if self.segment else b"EOS\n"
        if len(line) > 4096:
            complain(
                f"InvalidParameter: byte size of input string ({len(line)}) is greater than maximum allowed (4096)"
            )
            return empty
        if not well_formed(line):
            complain("InvalidParameter: Invalid UTF8 sequence")
            return empty
        text = line.decode(errors="surrogateescape")
        if EXPLODES.search(text):
            complain("terminate called after throwing an instance of 'std::bad_alloc'")
            os._exit(134)
        known = self.words.get(text)
        words = known.split("\x1f") if known else WORD.findall(text)
        printed = f"{self.separator.join(words)}\n" if self.segment else "".join(map(juman, words)) + "EOS\n"
        return printed.encode(errors="surrogateescape")


def complain(what):
    sys.stderr.write(f"{what}\n")


def well_formed(line):
    """As Juman++ sees it: overlong forms and surrogates pass, stray and missing bytes do not."""
    return re.fullmatch(
        rb"(?:[\x00-\x7f]|[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3})*", line
    )


def juman(word):
    printed = {" ": "\\␣", "\t": "\\t"}.get(word, word)
    if word == KAOMOJI:
        return f'{word} {word} {word} 特殊 1 記号 5 * 0 * 0 "代表表記:顔文字/顔文字 顔文字"\n'
    if word == "母":
        return '母 はは 母 名詞 6 普通名詞 1 * 0 * 0 NIL\n@ 母 ぼ 母 名詞 6 普通名詞 1 * 0 * 0 "代表表記:母/ぼ"\n'
    return f'{printed} {printed} {printed} 未定義語 15 その他 1 * 0 * 0 "未知語:その他 品詞推定:特殊"\n'


if __name__ == "__main__":
    sys.exit(main())
