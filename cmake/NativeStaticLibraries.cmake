# System libraries that a program linking libumbo.a needs, in link order. This is
# what `rustc --print native-static-libs` reports on Linux; the test
# package.native_static_libraries asks rustc again and compares. They are written
# as linker options because a plain `util` would also name a CMake target.
set(UMBO_NATIVE_STATIC_LIBRARIES -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc)
if(UMBO_RUST_TARGET MATCHES "-musl")
  # The unwinder is a part of libumbo.a there (build.rs). It looks for tables that linkers leave out of programs
  # without shared libraries.
  set(UMBO_NATIVE_STATIC_LIBRARIES -Wl,--eh-frame-hdr -lc)
endif()
if(WIN32)
  set(UMBO_NATIVE_STATIC_LIBRARIES -ladvapi32 -lkernel32 -lntdll -luserenv -lws2_32 -ldbghelp)
endif()
