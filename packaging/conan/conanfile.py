"""Umbo for Conan 2, from the sources that this file lies in: `conan create packaging/conan`.

The package has both libraries and Umbo's own CMake package, whose targets umbo::shared, umbo::static and umbo::umbo
are those of any other installation. cargo and a Rust toolchain are taken from the machine.
"""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import cross_building
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

# What a Rust target triple calls Conan's architectures.
RUST_ARCHITECTURES = {"x86_64": "x86_64", "armv8": "aarch64"}


class Umbo(ConanFile):
    name = "umbo"
    description = "Central-storage data-parallel training for C and C++"
    license = "MIT OR Apache-2.0"
    topics = ("machine-learning", "training", "data-parallel")
    settings = "os", "arch", "compiler", "build_type"
    options = {"tool": [True, False]}
    default_options = {"tool": True}

    @property
    def _sources(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir)

    def set_version(self):
        # Cargo.toml is where the version is written.
        manifest = load(self, os.path.join(self._sources, "Cargo.toml"))
        line = next(line for line in manifest.splitlines() if line.startswith("version = "))
        self.version = line.split('"')[1]

    def export_sources(self):
        parts = ("Cargo.*", "CMakeLists.txt", "build.rs", "*.md", "*LICENSE*",
                 "src/*", "crates/*", "include/*", "cmake/*", "adapters/*", "macros/*", "tool/*", "docs/*",
                 "c_examples/*",
                 # Members of the cargo workspace, which cargo wants to see.
                 "tests/*", "benches/*")
        for part in parts:
            copy(self, part, src=self._sources, dst=self.export_sources_folder)

    def configure(self):
        # The library has a C ABI and is linked by a C compiler.
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("umbo is built on Linux only")
        if str(self.settings.arch) not in RUST_ARCHITECTURES:
            raise ConanInvalidConfiguration(f"umbo is built for {', '.join(RUST_ARCHITECTURES)}, not {self.settings.arch}")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["UMBO_BUILD_TESTS"] = False
        toolchain.cache_variables["UMBO_BUILD_EXAMPLES"] = False
        if cross_building(self):
            architecture = RUST_ARCHITECTURES[str(self.settings.arch)]
            toolchain.cache_variables["UMBO_RUST_TARGET"] = f"{architecture}-unknown-linux-gnu"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        cmake = CMake(self)
        for component in ["runtime", "development", "documentation"] + (["tool"] if self.options.tool else []):
            cmake.install(component=component)

    def package_info(self):
        # Umbo's own CMake package is used, not one that Conan writes.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append(os.path.join("lib", "cmake", "umbo"))
        self.cpp_info.set_property("pkg_config_name", "umbo")
        self.cpp_info.libs = ["umbo"]
        self.cpp_info.system_libs = ["dl", "m", "pthread"]
        if self.options.tool:
            self.buildenv_info.append_path("PATH", os.path.join(self.package_folder, "bin"))
