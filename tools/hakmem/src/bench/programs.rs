// SPDX-License-Identifier: MIT
//! Real programs as rows: what each is, what it needs, and the figures that all of them have.

use super::model::{Better, Kind, Metric, Needed, Row, Target};
use super::rows::row;

pub const GROUP: &str = "real programs";
/// So many programs are worth a table of their own.
pub const MANY: usize = 20;
/// A program that hangs must not take the time of the others.
const TIMEOUT_S: u64 = 120;

/// A job file, or a program of the system with its arguments.
enum Job {
    Command(&'static str, &'static str),
    /// A script that starts a server under the allocator, and puts load on it.
    Server(&'static str),
}
use Job::{Command, Server};

struct Program {
    name: &'static str,
    job: Job,
    /// A program or file, and the Debian package that brings it.
    needs: &'static [(&'static str, &'static str)],
    environment: &'static [(&'static str, &'static str)],
    takes_s: f64,
    /// Also in the suite of all rows, and in the quick one.
    full: bool,
    quick: bool,
}

const USUAL: Program =
    Program { name: "", job: Server(""), needs: &[], environment: &[], takes_s: 1.0, full: false, quick: false };

const PANDAS: &str = "/usr/lib/python3/dist-packages/pandas";
const LEARN: &str = "/usr/lib/python3/dist-packages/sklearn";
const MALLOC: &[(&str, &str)] = &[("PYTHONMALLOC", "malloc")];
const JQ: &str = "-n [range(150000)|{id:.,name:\"user\\(.)\"}]|group_by(.id%1000)|map(length)|add";
const IMAGE: &str = "-seed 42 -size 1400x1000 plasma:fractal -blur 0x3 -resize 50% -rotate 10 {scratch}/image.png";
const FILM: &str = "-v error -f lavfi -i testsrc2=size=1280x720:rate=25 -t 1.5 -c:v libx264 -preset veryfast \
                    -threads 2 -f null -";
const KEYS: &str = "--benchmarks=fillrandom,readrandom,overwrite --num=40000 --value_size=200 --db={scratch}/rocksdb \
                    --threads=2 --write_buffer_size=4194304 --cache_size=16777216 --stats_interval=1000000";

/// In the order of the tables.
const PROGRAMS: &[Program] = &[
    Program {
        name: "Python job",
        job: Command("python3", "{programs}/job.py"),
        needs: &[("python3", "python3")],
        environment: MALLOC,
        full: true,
        quick: true,
        ..USUAL
    },
    Program {
        name: "Python, 4 threads",
        job: Command("python3", "{programs}/job.py 4 2"),
        needs: &[("python3", "python3")],
        takes_s: 1.3,
        ..USUAL
    },
    Program {
        name: "Python, 4 threads, its objects too",
        job: Command("python3", "{programs}/job.py 4 2"),
        needs: &[("python3", "python3")],
        environment: MALLOC,
        takes_s: 1.5,
        ..USUAL
    },
    Program {
        name: "NumPy and pandas",
        job: Command("/usr/bin/python3", "{programs}/frames.py"),
        needs: &[(PANDAS, "python3-pandas")],
        takes_s: 1.6,
        ..USUAL
    },
    Program {
        name: "scikit-learn, 2 threads",
        job: Command("/usr/bin/python3", "{programs}/learn.py"),
        needs: &[(LEARN, "python3-sklearn")],
        takes_s: 2.5,
        ..USUAL
    },
    Program {
        name: "SQLite",
        job: Command("sqlite3", "-batch -init {programs}/job.sql :memory: .quit"),
        needs: &[("sqlite3", "sqlite3")],
        takes_s: 0.8,
        full: true,
        ..USUAL
    },
    Program {
        name: "g++ compiles",
        job: Command("g++", "-O1 -std=c++17 -c {root}/bench/workloads/containers_cpp.cpp -o {scratch}/unit.o"),
        needs: &[("g++", "g++")],
        full: true,
        ..USUAL
    },
    Program {
        name: "clang++ compiles",
        job: Command("clang++", "-O1 -std=c++17 -c {root}/bench/workloads/containers_cpp.cpp -o {scratch}/unit.o"),
        needs: &[("clang++", "clang")],
        takes_s: 1.4,
        ..USUAL
    },
    Program {
        name: "cargo build",
        job: Command("/bin/sh", "{programs}/cargo.sh"),
        needs: &[("/usr/bin/cargo", "cargo"), ("/usr/bin/rustc", "cargo")],
        takes_s: 2.0,
        ..USUAL
    },
    Program {
        name: "Lua job",
        job: Command("lua5.4", "{programs}/job.lua"),
        needs: &[("lua5.4", "lua5.4")],
        takes_s: 0.45,
        full: true,
        ..USUAL
    },
    Program {
        name: "Perl job",
        job: Command("perl", "{programs}/job.pl"),
        needs: &[("perl", "perl")],
        takes_s: 0.7,
        ..USUAL
    },
    Program { name: "Ruby job", job: Command("ruby", "{programs}/job.rb"), needs: &[("ruby", "ruby")], ..USUAL },
    Program {
        name: "PHP job",
        job: Command("php", "{programs}/job.php"),
        needs: &[("php", "php-cli")],
        takes_s: 0.6,
        ..USUAL
    },
    Program {
        name: "PHP job without its own allocator",
        job: Command("php", "{programs}/job.php"),
        needs: &[("php", "php-cli")],
        environment: &[("USE_ZEND_ALLOC", "0")],
        takes_s: 0.6,
        ..USUAL
    },
    Program {
        name: "R job",
        job: Command("Rscript", "--vanilla {programs}/job.R"),
        needs: &[("Rscript", "r-base-core")],
        takes_s: 1.6,
        ..USUAL
    },
    Program {
        name: "Node job",
        job: Command("node", "{programs}/job.js"),
        needs: &[("node", "nodejs")],
        takes_s: 0.6,
        full: true,
        ..USUAL
    },
    Program {
        name: "Java, direct buffers",
        job: Command("java", "-Xmx96m -XX:+UseSerialGC -XX:MaxDirectMemorySize=96m {programs}/DirectBuffers.java"),
        needs: &[("javac", "default-jdk-headless")],
        takes_s: 1.8,
        ..USUAL
    },
    Program {
        name: "Rust job",
        job: Command("{root}/target/release/bench-job", ""),
        takes_s: 0.14,
        full: true,
        ..USUAL
    },
    Program { name: "jq", job: Command("jq", JQ), needs: &[("jq", "jq")], ..USUAL },
    Program {
        name: "git: import, repack, log",
        job: Command("/bin/sh", "{programs}/git.sh"),
        needs: &[("git", "git")],
        takes_s: 1.5,
        ..USUAL
    },
    Program {
        name: "ImageMagick",
        job: Command("convert", IMAGE),
        needs: &[("convert", "imagemagick")],
        takes_s: 1.2,
        ..USUAL
    },
    Program { name: "ffmpeg, x264", job: Command("ffmpeg", FILM), needs: &[("ffmpeg", "ffmpeg")], ..USUAL },
    Program {
        name: "LibreOffice, CSV to xlsx",
        job: Command("/bin/sh", "{programs}/office.sh"),
        needs: &[("/usr/lib/libreoffice/program/soffice.bin", "libreoffice-calc-nogui")],
        takes_s: 2.0,
        ..USUAL
    },
    Program {
        name: "RocksDB",
        job: Command("db_bench", KEYS),
        needs: &[("db_bench", "rocksdb-tools")],
        takes_s: 1.3,
        ..USUAL
    },
    Program {
        name: "Redis",
        job: Server("redis.sh"),
        needs: &[("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")],
        full: true,
        ..USUAL
    },
    Program {
        name: "memcached",
        job: Server("memcached.sh"),
        needs: &[("memcached", "memcached"), ("python3", "python3")],
        ..USUAL
    },
    Program {
        name: "nginx",
        job: Server("nginx.sh"),
        needs: &[("nginx", "nginx"), ("curl", "curl")],
        takes_s: 1.2,
        ..USUAL
    },
    Program {
        name: "PostgreSQL",
        job: Server("postgresql.sh"),
        needs: &[("/usr/lib/postgresql", "postgresql"), ("psql", "postgresql-client")],
        takes_s: 2.0,
        ..USUAL
    },
    Program {
        name: "MariaDB",
        job: Server("mariadb.sh"),
        needs: &[("mariadbd", "mariadb-server-core"), ("mariadb", "mariadb-client-core")],
        takes_s: 2.0,
        ..USUAL
    },
];

pub fn all() -> Vec<Row> {
    PROGRAMS.iter().map(of).collect()
}

fn of(program: &Program) -> Row {
    let lower = |field: &str, unit: &str, divisor: f64, kind| Metric::new(field, unit, divisor, Better::Lower, kind);
    let (target, arguments, time) = match program.job {
        Command(command, arguments) => {
            (Target::System(command.into()), arguments, lower("wall_s", "s", 1.0, Kind::Speed))
        }
        Server(script) => (Target::Script(script.into()), "", lower("load_ms", "s", 1e3, Kind::Speed)),
    };
    let mut row = row(program.name, GROUP, target, arguments);
    row.metrics = vec![
        time,
        lower("peak_kib", "MiB", 1024.0, Kind::Memory),
        lower("cpu_s", "CPU s", 1.0, Kind::Beside),
        lower("sampled_rss_max_kib", "MiB RSS of the group", 1024.0, Kind::Beside),
        lower("sampled_pss_max_kib", "MiB PSS of the group", 1024.0, Kind::Beside),
        lower("sampled_lazyfree_max_kib", "MiB LazyFree", 1024.0, Kind::Beside),
        lower("sampled_rest_kib", "MiB RSS after 2 s of rest", 1024.0, Kind::Beside),
        lower("minor_faults", "thousand page faults", 1e3, Kind::Beside),
    ];
    row.needs = program.needs.iter().map(|(what, package)| Needed::new(what, package)).collect();
    row.environment = program.environment.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    row.takes_s = program.takes_s;
    row.quick = program.quick;
    row.apart = !program.full;
    row.memory_round = true;
    row.warm_mib = 256;
    row.timeout_s = TIMEOUT_S;
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_many_and_each_says_what_to_install() {
        assert!(PROGRAMS.len() >= MANY, "{}", PROGRAMS.len());
        assert!(all().iter().all(|r| !r.needs.is_empty() || r.name == "Rust job"));
    }

    /// A row takes seconds, so that all of them under nine allocators take less than an hour.
    #[test]
    fn a_program_takes_seconds() {
        assert!(all().iter().all(|r| r.takes_s <= 3.0));
    }

    #[test]
    fn job_files_are_there() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/programs");
        let named = |row: &Row| match &row.target {
            Target::Script(name) => Some(name.clone()),
            _ => row.arguments.iter().find_map(|a| a.strip_prefix("{programs}/").map(String::from)),
        };
        let missing: Vec<String> = all().iter().filter_map(named).filter(|name| !folder.join(name).is_file()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
