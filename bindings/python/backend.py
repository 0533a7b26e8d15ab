# SPDX-License-Identifier: MIT
"""Builds the wheel and the source distribution (PEP 517) with a C compiler and Python's own library alone.

The library is compiled from c/src and c/include, as src/build.txt says; the wheel has it beside the Python files. It needs no Python of a
certain version: the tag is py3-none and the platform.
"""

import base64
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
NAME = "hakmem"
VERSION = re.search(r'^version = "(.*)"', (HERE / "pyproject.toml").read_text(), re.MULTILINE)[1]
METADATA = "Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: A memory allocator for the programs that Python runs on, and runs\nLicense: MIT\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n%s"
EPOCH = (1980, 1, 1, 0, 0, 0)
GLIBC_LEAST = (2, 28)  # the oldest that is promised, whatever the names of the library would do with


def listed(text, word):
    return [line.split(" ", 1)[1] for line in text.splitlines() if line.startswith(word + " ")]


def compile_library(target):
    """One object a file, the small ones by -Os, then the library."""
    source = HERE / "c/src"
    text = (source / "build.txt").read_text()
    compiler = shlex.split(os.environ.get("CC", "cc"))
    common = compiler + ["-std=gnu17", "-fPIC", "-D_GNU_SOURCE", '-DHK_BUILD_TYPE="release"', "-I%s" % source, "-I%s" % (HERE / "c/include")]
    common += ["-ffile-prefix-map=%s=." % HERE] + listed(text, "flag")
    small = {file for pattern in listed(text, "small") for file in source.glob(pattern)}
    rare = {file for pattern in listed(text, "rare") for file in source.glob(pattern)}
    files = [file for file in sorted(source.glob("*/*.c")) if not file.name.endswith("_static.c")]
    files.sort(key=lambda file: file in rare)
    with tempfile.TemporaryDirectory() as work:
        objects = []
        for file in files:
            made = os.path.join(work, "%s-%s.o" % (file.parent.name, file.stem))
            subprocess.run(common + ["-Os" if file in small else "-O2", "-c", str(file), "-o", made], check=True)
            objects.append(made)
        link = ["-Wl,-z,now", "-Wl,-z,relro", "-Wl,-z,nodelete", "-Wl,-z,initfirst", "-Wl,-soname,libhakmem.so.0", "-s"]
        script = HERE / "c/hakmem.map"
        subprocess.run(compiler + ["-shared", "-o", str(target)] + objects + link + ["-Wl,--version-script=%s" % script, "-pthread", "-ldl"], check=True)


def glibc_floor(library):
    """The newest version of glibc's names that the library needs; None with another libc."""
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)", library.read_bytes())
    return max((int(a), int(b)) for a, b in found) if found else None


def platform_tag(library):
    machine = sysconfig.get_platform().split("-")[-1]
    floor = glibc_floor(library)
    return "manylinux_%d_%d_%s" % (max(floor, GLIBC_LEAST) + (machine,)) if floor else "musllinux_1_2_%s" % machine


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as work:
        library = pathlib.Path(work) / "libhakmem.so.0"
        compile_library(library)
        tag = "py3-none-" + platform_tag(library)
        info = "%s-%s.dist-info" % (NAME, VERSION)
        contents = {"%s/%s" % (NAME, file.name): file.read_bytes() for file in sorted((HERE / NAME).glob("*.py"))}
        contents["%s/libhakmem.so.0" % NAME] = library.read_bytes()
        contents[info + "/METADATA"] = (METADATA % (NAME, VERSION, (HERE / "README.md").read_text())).encode()
        contents[info + "/WHEEL"] = ("Wheel-Version: 1.0\nGenerator: hakmem\nRoot-Is-Purelib: false\nTag: %s\n" % tag).encode()
        contents[info + "/entry_points.txt"] = b"[console_scripts]\nhakmem-run = hakmem.__main__:main\n"
        contents[info + "/LICENSE"] = (HERE / "LICENSE").read_bytes()
    record = "".join("%s,%s,%d\n" % (name, digest(data), len(data)) for name, data in contents.items())
    contents[info + "/RECORD"] = (record + info + "/RECORD,,\n").encode()
    wheel = "%s-%s-%s.whl" % (NAME, VERSION, tag)
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o755 if name.endswith(".so.0") else 0o644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    root = "%s-%s" % (NAME, VERSION)
    name = root + ".tar.gz"
    with tempfile.TemporaryDirectory() as work:
        tree = pathlib.Path(work) / root
        # Links to the source of the library become what they lead to.
        shutil.copytree(HERE, tree, ignore=shutil.ignore_patterns("__pycache__", "*.whl", "dist", "tests"))
        (tree / "PKG-INFO").write_text(METADATA % (NAME, VERSION, (HERE / "README.md").read_text()))
        with tarfile.open(os.path.join(sdist_directory, name), "w:gz", format=tarfile.PAX_FORMAT) as archive:
            archive.add(tree, arcname=root)
    return name
