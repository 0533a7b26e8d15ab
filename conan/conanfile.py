# SPDX-License-Identifier: MIT
"""Conan 2 recipe of the tree that it lies in: `conan create conan` in a clone; scripts/check-conan does so."""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rm, rmdir


class HakmemConan(ConanFile):
    name = "hakmem"
    license = "MIT"
    description = "A drop-in memory allocator for Linux"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": True}
    package_type = "library"
    languages = "C"

    def _root(self):
        return os.path.dirname(self.recipe_folder)

    def set_version(self):
        with open(os.path.join(self._root(), "include/hakmem.h")) as header:
            self.version = ".".join(re.findall(r"^#define HAK_VERSION_[A-Z]+ (\d+)$", header.read(), re.MULTILINE))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "docs/hakmem.7"):
            copy(self, pattern, self._root(), self.export_sources_folder)

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("hakmem is for Linux on x86-64 and aarch64")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["HAKMEM_TESTS"] = False
        toolchain.cache_variables["HAKMEM_WERROR"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        # The build makes both kinds of library. One stays; Conan writes the files by which CMake and pkg-config find it.
        libraries = os.path.join(self.package_folder, "lib")
        rm(self, "libhakmem.a" if self.options.shared else "libhakmem.so*", libraries)
        rmdir(self, os.path.join(libraries, "cmake"))
        rmdir(self, os.path.join(libraries, "pkgconfig"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "hakmem")
        self.cpp_info.set_property("cmake_target_name", "hakmem::hakmem")
        self.cpp_info.set_property("pkg_config_name", "hakmem")
        self.cpp_info.libs = ["hakmem"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread", "dl"]
        # A program that never names malloc itself still gets ours, also with --as-needed.
        self.cpp_info.exelinkflags = ["-Wl,--undefined=malloc"]
        if self.options.shared:
            library = os.path.join(self.package_folder, "lib", "libhakmem.so")
            self.cpp_info.exelinkflags += ["-Wl,--push-state,--no-as-needed,%s,--pop-state" % library]
        self.runenv_info.append_path("LD_LIBRARY_PATH", os.path.join(self.package_folder, "lib"))
