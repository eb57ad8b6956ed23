"""NVRTC compiles the kernels for every architecture we name, without a driver; the output is looked at."""

import re
import struct

import pytest

from app.core.errors import DeviceError
from workers.gpu.cuda_kernels import GATHER, SCATTER
from workers.gpu.cupy_driver import compile_kernels, kernel_assembly

TARGETS = [80, 90, 100, 121]
EM_CUDA = 190


def section_names(cubin: bytes) -> list[str]:
    """The section names of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + number * size) for number in range(count)]
    start, length = headers[names][4], headers[names][5]
    strings = cubin[start : start + length]
    return [strings[header[0] : strings.index(b"\0", header[0])].decode() for header in headers]


def code_of(cubin: bytes, *, kernel: str) -> bytes:
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, _, _ = struct.unpack_from("<HHH", cubin, 58)
    number = section_names(cubin).index(f".text.{kernel}")
    header = struct.unpack_from("<IIQQQQ", cubin, table + number * size)
    return cubin[header[4] : header[4] + header[5]]


def wide_accesses(code: bytes) -> tuple[int, int]:
    """Loads and stores of 128 bits: instructions of 16 bytes, opcode in bits 0 – 8, width in bits 73 – 75.

    LD 0x180, LDG 0x181, ST 0x185, STG 0x186: what nvdisasm prints for them, sm_80 to sm_121.
    """
    pairs = struct.iter_unpack("<QQ", code)
    wide = [low & 0x1FF for low, high in pairs if (high >> 9) & 7 == 6]
    return wide.count(0x180) + wide.count(0x181), wide.count(0x185) + wide.count(0x186)


@pytest.mark.parametrize("target", TARGETS)
def test_both_kernels_are_there_for_this_architecture(target: int) -> None:
    cubin = compile_kernels(f"sm_{target}")
    assert cubin[:4] == b"\x7fELF"
    (segments,) = struct.unpack_from("<Q", cubin, 32)
    size, count = struct.unpack_from("<HH", cubin, 54)
    assert len(cubin) == segments + size * count
    machine, flags = struct.unpack_from("<H", cubin, 18)[0], struct.unpack_from("<I", cubin, 48)[0]
    assert (machine, flags >> 8 & 0xFF) == (EM_CUDA, target)
    assert {f".text.{SCATTER}", f".text.{GATHER}"} <= set(section_names(cubin))
    for kernel in (SCATTER, GATHER):
        loads, stores = wide_accesses(code_of(cubin, kernel=kernel))
        assert loads >= 4
        assert stores >= 4


@pytest.mark.parametrize("target", TARGETS)
def test_the_wide_path_moves_16_bytes_at_a_time(target: int) -> None:
    assembly = kernel_assembly(f"sm_{target}")
    assert f".target sm_{target}" in assembly
    entries = re.split(r"(?m)^\.visible \.entry ", assembly)[1:]
    assert [re.match(r"\w+", entry)[0] for entry in entries] == [SCATTER, GATHER]  # type: ignore[index]
    for entry in entries:
        assert re.search(r"\bld(\.global)?\.v4\.[ub]32", entry)
        assert re.search(r"\bst(\.global)?\.v4\.[ub]32", entry)
        assert re.search(r"\batom\.[\w.]*cas\.b32", entry)


def test_an_architecture_nobody_knows_is_refused_with_the_compilers_words() -> None:
    with pytest.raises(DeviceError, match=r"expected to compile for sm_7, found .*invalid value"):
        compile_kernels("sm_7")
