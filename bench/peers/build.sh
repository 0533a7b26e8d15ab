#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the allocators that hakmem is measured against, from the package registries alone, each in its own default
# configuration, into build/peers/, and lists them in build/peers/manifest.tsv:
#   name, version, libraries to preload (colon separated), environment it needs, note.
# A peer that cannot be had becomes a line without libraries; its note is the reason. Nothing here fails the run.
# usage: build.sh [PEER...]     all of them, or those named; JOBS=1 limits the compile jobs
#        build.sh --list        their names, in the order of the tables
set -u

crates="mimalloc3 mimalloc2 jemalloc snmalloc rpmalloc hardened tcmalloc tcmalloc-norseq"
crates="$crates hardened-light mimalloc-secure snmalloc-checks"
debian="gperftools tbbmalloc scudo jemalloc-debian mimalloc-debian"

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$root/build/peers
src=$out/src
log=$out/log
jobs=${JOBS:-$(nproc 2>/dev/null || echo 1)}
cc=${CC:-gcc}
cxx=${CXX:-g++}
manifest=$out/manifest.tsv
tls="-fPIC -ftls-model=initial-exec"

fetched() { [ -f "$src/.complete" ] && [ "$src/.complete" -nt "$here/Cargo.lock" ]; }
fetch_sources() {
    rm -rf "$src"
    cargo vendor --quiet --locked --manifest-path "$here/Cargo.toml" "$src" >/dev/null && touch "$src/.complete"
}

# The version a crate declares for itself, without its build metadata.
crate_version() { sed -n 's/^version = "\(.*\)"/\1/p' "$src/$1/Cargo.toml" | sed -n 1p; }

build_mimalloc() { # name of the crate's source folder, name of the library, ON: with all of its checks
    work=$out/work/$2
    cmake -S "$src/libmimalloc-sys2/c_src/$1" -B "$work" -DCMAKE_BUILD_TYPE=Release -DMI_BUILD_TESTS=OFF \
        -DMI_BUILD_STATIC=OFF -DMI_BUILD_OBJECT=OFF -DMI_SECURE="$3" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_CXX_COMPILER="$cxx" || return 1
    cmake --build "$work" -j"$jobs" || return 1
    cp -L "$work"/libmimalloc*.so "$out/$2"
}

# The header writes 3.6.0 as 30600.
mimalloc_version() {
    header=$src/libmimalloc-sys2/c_src/$1/include/mimalloc.h
    number=$(sed -n 's/^#define MI_MALLOC_VERSION *\([0-9]*\).*/\1/p' "$header")
    echo "$((number / 10000)).$((number / 100 % 100)).$((number % 100))"
}

build_jemalloc() {
    work=$out/work/jemalloc
    rm -rf "$work" && mkdir -p "$out/work" && cp -r "$src/tikv-jemalloc-sys/jemalloc" "$work" || return 1
    cp "$src/tikv-jemalloc-sys/configure/configure" "$work/configure" && chmod -R u+w "$work" || return 1
    (cd "$work" && chmod +x configure && CC=$cc CXX=$cxx ./configure --with-version="$(jemalloc_version)" \
        --enable-doc=no --enable-static=no && make -j"$jobs" build_lib_shared) || return 1
    cp "$work/lib/libjemalloc.so.2" "$out/libjemalloc.so"
}

jemalloc_version() { crate_version tikv-jemalloc-sys | sed 's/^[^+]*+//'; }

build_snmalloc() { # name of the target and of the library
    work=$out/work/snmalloc
    cmake -S "$src/snmalloc-sys/upstream" -B "$work" -DCMAKE_BUILD_TYPE=Release -DSNMALLOC_BUILD_TESTING=OFF \
        -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" || return 1
    cmake --build "$work" -j"$jobs" --target "$1" || return 1
    cp "$work/lib$1.so" "$out/$2"
}

# rpmalloc's own build defines ENABLE_PRELOAD and ENABLE_OVERRIDE for its malloc wrapper library.
build_rpmalloc() {
    dir=$src/rpmalloc-sys/rpmalloc/rpmalloc
    $cc -std=gnu11 -O3 -DNDEBUG -D_GNU_SOURCE=1 -DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1 $tls -fno-builtin-malloc \
        -I"$dir" -shared "$dir/rpmalloc.c" -o "$out/librpmalloc.so" -lpthread -ldl
}

rpmalloc_version() { sed -n '1s/:.*//;1p' "$src/rpmalloc-sys/rpmalloc/CHANGELOG" | tr -d '\r'; }

# The list of files is the crate's own; its two bridge files serve Rust only, tcmalloc.cc takes their place.
tcmalloc_files() {
    sed -n 's/^ *"\(c_src\/.*\.\(cc\|S\)\)",$/\1/p' "$src/libtcmalloc-sys/build.rs" | grep -v bridge
    echo c_src/tcmalloc/tcmalloc/tcmalloc.cc
}

build_tcmalloc() {
    dir=$src/libtcmalloc-sys
    work=$out/work/tcmalloc
    mkdir -p "$work"
    {
        echo "FLAGS = -O2 -DNDEBUG -DNOMINMAX -DTCMALLOC_INTERNAL_8K_PAGES $tls -fno-omit-frame-pointer -w"
        echo "FLAGS += -I$dir/c_src/abseil-cpp -I$dir/c_src/tcmalloc"
        echo "objects ="
        tcmalloc_files | while read -r file; do
            object=$(echo "$file" | tr / _).o
            printf 'objects += %s\n%s: %s\n\t%s -std=c++17 $(FLAGS) -c $< -o $@\n' "$object" "$object" "$dir/$file" "$cxx"
        done
        printf 'libtcmalloc.so: $(objects)\n\t%s -shared $(objects) -o $@ -lpthread -lm\n' "$cxx"
    } >"$work/Makefile"
    make -C "$work" -j"$jobs" libtcmalloc.so && cp "$work/libtcmalloc.so" "$out/libtcmalloc.so"
}

build_hardened() { # name of its configuration, name of the library
    dir=$src/hardened-malloc-sys
    work=$out/work/hardened-$1
    mkdir -p "$work"
    defines=$(sed -n 's/^\([A-Z_]*\)=\(.*\)/-D\1=\2/p' "$dir/config-$1.conf")
    flags="-O3 -flto -D_GNU_SOURCE $defines -fvisibility=hidden -fno-plt -ftrivial-auto-var-init=zero $tls"
    flags="$flags -fstack-clash-protection -fstack-protector-strong -I$dir/vendor/hardened-malloc"
    flags="$flags -I$dir/vendor/hardened-malloc/include -I$dir/vendor/hardened-malloc/third_party"
    objects=
    for file in chacha h_malloc memory pages random util; do
        $cc -std=c2x -include stdalign.h $flags -c "$dir/vendor/hardened-malloc/$file.c" -o "$work/$file.o" || return 1
        objects="$objects $work/$file.o"
    done
    $cxx -std=c++17 $flags -c "$dir/vendor/hardened-malloc/new.cc" -o "$work/new.o" || return 1
    $cxx -O3 -flto -shared $objects "$work/new.o" -Wl,-O1,--as-needed,-z,defs,-z,relro,-z,now -lpthread \
        -o "$out/$2"
}

# Unpacks a Debian package under build/peers/deb without installing it.
unpack_deb() {
    dir=$out/deb/$1
    [ -f "$dir/.complete" ] && return 0
    rm -rf "$dir" && mkdir -p "$dir" || return 1
    (cd "$dir" && apt-get -qq download "$1" && dpkg-deb -x ./*.deb . && rm -f ./*.deb && touch .complete)
}

# A fresh machine has no package lists yet.
refresh_lists() {
    [ -n "$(deb_version libjemalloc2)" ] || apt-get -qq update >"$log/apt-update.log" 2>&1
}

deb_version() { apt-cache policy "$1" 2>/dev/null | sed -n 's/ *Candidate: //p'; }

build_deb() { # package, file name inside it, name under build/peers
    unpack_deb "$1" || return 1
    file=$(find "$out/deb/$1" -name "$2" ! -type d | sed -n 1p)
    [ -n "$file" ] && cp -L "$file" "$out/$3"
}

# tab-separated line; an empty list of libraries marks a peer that is missing
list() { printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$5" >>"$manifest.new"; }

# try NAME VERSION LIBRARIES ENVIRONMENT NOTE -- COMMAND...
try() {
    name=$1 version=$2 libraries=$3 environment=$4 note=$5
    shift 6
    first=${libraries%%:*}
    if [ ! -f "$out/$first" ]; then
        echo "peers: building $name ($number of $count)"
        "$@" >"$log/$name.log" 2>&1 || rm -f "$out/$first"
    fi
    if [ -f "$out/$first" ]; then
        list "$name" "$version" "$libraries" "$environment" "$note"
    else
        echo "peers: $name is missing: $(tail -n 1 "$log/$name.log")" >&2
        list "$name" "$version" "" "" "not built: $(tail -n 1 "$log/$name.log" | sed "s|$root/||g" | tr '\t' ' ')"
    fi
}

build_tbbmalloc() {
    build_deb libtbbmalloc2 'libtbbmalloc.so.2' libtbbmalloc.so.2 &&
        build_deb libtbbmalloc2 'libtbbmalloc_proxy.so.2' libtbbmalloc_proxy.so
}

peer() {
    case $1 in
    mimalloc3) try "$1" "$(mimalloc_version mimalloc3)" libmimalloc3.so "" "" -- build_mimalloc mimalloc3 libmimalloc3.so OFF ;;
    mimalloc2) try "$1" "$(mimalloc_version mimalloc)" libmimalloc2.so "" "" -- build_mimalloc mimalloc libmimalloc2.so OFF ;;
    mimalloc-secure)
        try "$1" "$(mimalloc_version mimalloc3)" libmimalloc-secure.so "" "mimalloc 3 with MI_SECURE=ON" -- \
            build_mimalloc mimalloc3 libmimalloc-secure.so ON
        ;;
    jemalloc) try "$1" "$(jemalloc_version)" libjemalloc.so "" "" -- build_jemalloc ;;
    snmalloc) try "$1" "$(crate_version snmalloc-sys)" libsnmalloc.so "" "" -- build_snmalloc snmallocshim libsnmalloc.so ;;
    snmalloc-checks)
        try "$1" "$(crate_version snmalloc-sys)" libsnmalloc-checks.so "" "snmalloc's shim with checks" -- \
            build_snmalloc snmallocshim-checks libsnmalloc-checks.so
        ;;
    rpmalloc)
        try "$1" "$(rpmalloc_version)" librpmalloc.so "" "newest in a registry; 2.x is not published there" -- \
            build_rpmalloc
        ;;
    hardened)
        try "$1" "$(crate_version hardened-malloc-sys)" libhardened_malloc.so "" \
            "hardened_malloc, default (hardest) configuration" -- build_hardened default libhardened_malloc.so
        ;;
    hardened-light)
        try "$1" "$(crate_version hardened-malloc-sys)" libhardened_malloc-light.so "" \
            "hardened_malloc, light configuration" -- build_hardened light libhardened_malloc-light.so
        ;;
    tcmalloc)
        try "$1" "crate $(crate_version libtcmalloc-sys)" libtcmalloc.so GLIBC_TUNABLES=glibc.pthread.rseq=0 \
            "per-CPU caches: glibc leaves rseq to it" -- build_tcmalloc
        ;;
    tcmalloc-norseq)
        try "$1" "crate $(crate_version libtcmalloc-sys)" libtcmalloc.so "" \
            "as a user gets it: glibc holds rseq, so per-CPU caches are off" -- build_tcmalloc
        ;;
    gperftools)
        try "$1" "$(deb_version libtcmalloc-minimal4)" libgperftools.so "" "tcmalloc_minimal" -- \
            build_deb libtcmalloc-minimal4 'libtcmalloc_minimal.so.4' libgperftools.so
        ;;
    tbbmalloc)
        try "$1" "$(deb_version libtbbmalloc2)" libtbbmalloc_proxy.so:libtbbmalloc.so.2 "" "" -- build_tbbmalloc
        ;;
    scudo)
        try "$1" "$(deb_version libclang-rt-19-dev)" libscudo.so "" "from clang's runtime" -- \
            build_deb libclang-rt-19-dev "libclang_rt.scudo_standalone-$(uname -m).so" libscudo.so
        ;;
    jemalloc-debian)
        try "$1" "$(deb_version libjemalloc2)" libjemalloc-debian.so "" "" -- \
            build_deb libjemalloc2 'libjemalloc.so.2' libjemalloc-debian.so
        ;;
    mimalloc-debian)
        try "$1" "$(deb_version libmimalloc2.0)" libmimalloc-debian.so "" "" -- \
            build_deb libmimalloc2.0 'libmimalloc.so.2.0' libmimalloc-debian.so
        ;;
    esac
}

is_one_of() { case " $2 " in *" $1 "*) true ;; *) false ;; esac; }

# The lines of this run, and those that other peers have from before, in the order of the tables.
write_manifest() {
    [ ! -f "$manifest" ] || cp "$manifest" "$manifest.old"
    touch "$manifest.old"
    for name in $crates $debian; do
        awk -F '\t' -v name="$name" '$1 == name && !n++' "$manifest.new" "$manifest.old"
    done >"$manifest.all"
    mv "$manifest.all" "$manifest"
    rm -f "$manifest.old" "$manifest.new"
}

if [ "${1:-}" = --list ]; then
    echo "$crates $debian" | tr ' ' '\n'
    exit 0
fi
chosen=${*:-$crates $debian}
count=0 needs_crates= needs_debian=
for name in $chosen; do
    count=$((count + 1))
    if is_one_of "$name" "$crates"; then
        needs_crates=yes
    elif is_one_of "$name" "$debian"; then
        needs_debian=yes
    else
        echo "build.sh: no peer '$name'; there are: $crates $debian" >&2
        exit 2
    fi
done

mkdir -p "$out" "$log"
: >"$manifest.new"
if [ -n "$needs_crates" ] && ! fetched; then
    echo "peers: fetching the sources"
    fetch_sources || echo "peers: the crates could not be fetched; peers built from them are missing" >&2
fi
[ -z "$needs_debian" ] || refresh_lists
number=0
for name in $chosen; do
    number=$((number + 1))
    peer "$name"
done
write_manifest
echo "peers: $(awk -F '\t' '$3 != ""' "$manifest" | wc -l) ready, listed in build/peers/manifest.tsv"
