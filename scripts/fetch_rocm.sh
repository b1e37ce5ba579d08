#!/bin/sh
# Unpacks Debian's own ROCm packages into FOLDER, for `make test-real` and `make bench`: FOLDER/sid (libggml0-backend-hip,
# librocblas4, libhipblaslt1 and the HIP runtime: 565 MB to fetch, 6 GB unpacked), FOLDER/trixie (librocblas0: 176 MB,
# 2 GB) and FOLDER/llvm (LLVM 22's tools as oracles, with their own C library: 120 MB). Needs no root and no GPU; nothing
# is installed, and the machine's own package lists are left alone. DEBIAN_MIRROR names another mirror than apt's.
set -eu
folder=${1:?usage: scripts/fetch_rocm.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

fetch() { # SUITE INTO PACKAGE...
    suite=$1 into=$folder/$2
    shift 2
    [ -e "$into/.complete" ] && return
    "$(dirname "$0")/fetch_debian.sh" -s "$suite" "$into" "$@"
    touch "$into/.complete"
}

fetch sid sid libggml0-backend-hip librocblas4 libhipblaslt1 libamdhip64-6 libhsa-runtime64-1
fetch trixie trixie librocblas0 libamdhip64-5
fetch sid llvm llvm-22 clang-22 libllvm22 libclang-cpp22 clang-tools-22 libstdc++6 libgcc-s1 libc6 libedit2 libtinfo6 \
    libxml2-16 libz3-4 zlib1g libzstd1 libbsd0 libmd0 libffi8 liblzma5

# LLVM's tools of another release, started with the C library that they were built for.
mkdir -p "$folder/bin"
for tool in llvm-objdump llvm-readelf clang-offload-bundler; do
    cat >"$folder/bin/$tool" <<END
#!/bin/sh
exec "$folder/llvm/usr/lib64/ld-linux-x86-64.so.2" --library-path \\
    "$folder/llvm/usr/lib/x86_64-linux-gnu:$folder/llvm/usr/lib/llvm-22/lib" \\
    "$folder/llvm/usr/lib/llvm-22/bin/$tool" "\$@"
END
    chmod +x "$folder/bin/$tool"
done
