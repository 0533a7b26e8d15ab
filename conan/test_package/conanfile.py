# SPDX-License-Identifier: MIT
import os

from conan import ConanFile
from conan.tools.cmake import CMake, cmake_layout


class HakmemTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        self.run(os.path.join(self.cpp.build.bindir, "uses_hakmem"), env="conanrun")
