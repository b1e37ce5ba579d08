"""The key and the names that a redaction works with, and the pseudonyms that it makes.

A pseudonym is `<kind:1a2b3c>`: six hex digits of HMAC-SHA256 over kind and value under a key that belongs to one
bundle. So the same host is the same tag everywhere in a bundle, and two bundles cannot be joined by their tags.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

KINDS = (
    "user",
    "host",
    "ip",
    "mac",
    "mail",
    "secret",
    "auth",
    "private-key",
    "gpu-uuid",
    "serial",
    "machine",
    "disk",
    "model",
    "prompt",
)
"""Every kind that a tag can name; a text like `<thing:1a2b3c>` of another kind is no tag of ours."""

TAG_SOURCE = rf"<(?:{'|'.join(KINDS)}):[0-9a-f]{{6}}>"
TAG = re.compile(TAG_SOURCE)

KEY_BYTES = 16

COMMON_WORDS = frozenset(
    """
    abort admin all allow amd amdgpu arch auto backend base block build card client code core cpu crash cuda data
    debian debug decode default demo dev device discover docker driver epyc error execution fast fedora file free
    geforce gemma ggml gguf gpu graph guest hang hip home host info init instinct intel kernel lab layer linux
    llama llama-server load local localhost log main mark max memory mesa meta min mistral model name navi node
    none nvidia off ok ollama open opencl output partial path phi polaris pool prompt pytorch quadro queue qwen
    radeon radv ray rdna ready reserve rocm root run runner ryzen self server service shared slot small stable
    state stillruns stopped sycl system target teardown tesla test thread threadripper time tiny titan token total
    ubuntu unknown unlisted user vega vllm vulkan warmup worker workstation wrong xeon yes
    """.split()
)
"""Words that logs of model servers say all the time. As a user or host name from the list they are replaced only
where the text itself shows a name (a home path, a shell prompt, a log prefix), since elsewhere they are facts."""

_CARD = re.compile(r"gfx[0-9a-f]{3,4}|sm_?\d{2,3}|(?:mi|rx|gtx|rtx|vega)[-_]?\d{2,4}\w{0,3}|[ahkmpv]\d{2,3}")
"""How machines are often called after their card (`mi50`, `gfx906`, `p40`): a fact wherever else it stands."""


def _looks_common(name: str) -> bool:
    word = name.lower()
    return len(name) < 3 or name.isdigit() or word in COMMON_WORDS or bool(_CARD.fullmatch(word))


@dataclass(frozen=True, slots=True)
class Redactor:
    """What to look for, and under which key.

    `key` is at least 16 random bytes, made for one bundle and never stored in it. `users` and `hosts` are names taken
    from the machine (a host may be fully qualified: its first label then counts as the same host). `texts` are exact
    private texts, such as prompts that stand on a command line. `models` says whether names of model files go too.
    """

    key: bytes
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    models: bool = False

    def __post_init__(self) -> None:
        """A short key could be guessed from a known pair of name and tag."""
        if len(self.key) < KEY_BYTES:
            raise ValueError(f"a redaction key needs at least {KEY_BYTES} bytes, this one has {len(self.key)}")

    def __repr__(self) -> str:
        """Without the key: a repr can end up in a traceback, and a traceback in a report."""
        return f"Redactor({len(self.users)} users, {len(self.hosts)} hosts, {len(self.texts)} texts)"

    def tag(self, kind: str, value: str) -> str:
        """The pseudonym of `value`. Case does not matter for hosts, mail and hardware addresses."""
        assert kind in KINDS, kind
        canonical = value
        if kind == "host":
            canonical = self._host(value)
        elif kind not in ("user", "secret", "auth", "private-key", "prompt", "model"):
            canonical = value.lower()
        message = f"{kind}\0{canonical}".encode("utf-8", "surrogatepass")
        return f"<{kind}:{hmac.new(self.key, message, hashlib.sha256).hexdigest()[:6]}>"

    def _host(self, value: str) -> str:
        """A short name stands for the qualified one of the list that it begins."""
        lowered = value.lower().rstrip(".")
        if "." not in lowered:
            for known in self.hosts:
                if known.lower().startswith(lowered + "."):
                    return known.lower().rstrip(".")
        return lowered

    def listed_names(self) -> dict[str, str]:
        """{name in lower case: kind} of all names that are replaced wherever they stand as a word."""
        names = {user.lower(): "user" for user in self.users if not _looks_common(user)}
        for host in self.hosts:
            for name in (host.rstrip("."), host.split(".")[0]):
                if not _looks_common(name):
                    names.setdefault(name.lower(), "host")
        return names

    def names_only_in_context(self) -> tuple[str, ...]:
        """The listed names that are common words, so that a caller can tell the user about them."""
        return tuple(sorted(name for name in {*self.users, *self.hosts} if _looks_common(name.split(".")[0])))
