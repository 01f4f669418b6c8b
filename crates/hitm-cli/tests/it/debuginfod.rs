//! Debug information from a server of debuginfod.

use hitm_test::process::Command;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::programs;

/// Runs a tool of the compiler, which must succeed.
fn tool(name: &str, args: &[&Path]) {
    let status = Command::new(name).args(args).status();
    assert!(status.expect("it starts").success(), "{name}");
}

/// Answers a request for a path that ends with `/debuginfo` with `file`, any other with 404. The path of the
/// request comes back.
fn answer(stream: &TcpStream, file: &[u8]) -> Option<String> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next()?.ok()?;
    lines.find(|line| line.as_ref().map_or(true, String::is_empty));
    let path = request.split(' ').nth(1)?.to_owned();
    let (status, body) = match path.ends_with("/debuginfo") {
        true => ("200 OK", file),
        false => ("404 Not Found", &[][..]),
    };
    let length = body.len();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    stream.write_all(body).ok()?;
    Some(path)
}

#[test]
fn what_a_stripped_program_lacks_comes_from_a_server() {
    if Command::new("debuginfod-find")
        .arg("--version")
        .output()
        .is_err()
    {
        let test = "what_a_stripped_program_lacks_comes_from_a_server";
        return programs::say_not_run(test, "no debuginfod-find");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = programs::root().join("examples/false_sharing.c");
    let program = programs::build(directory, "packed", &source, &[]);
    let debug = directory.join("packed.debug");
    tool(
        "objcopy",
        &[Path::new("--only-keep-debug"), &program, &debug],
    );
    tool("strip", &[&program]);
    let recording = programs::record(directory, &program, &["2000".into()]);
    let debug = fs::read(debug).expect("objcopy wrote it");

    let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", server.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for stream in server.incoming().flatten() {
            answer(&stream, &debug);
        }
    });
    let report = |urls: &str| {
        let mut command = Command::new(programs::hitm());
        command.args(["report", "-i"]).arg(&recording);
        command.env("DEBUGINFOD_URLS", urls);
        command.env("DEBUGINFOD_CACHE_PATH", directory.join("cache"));
        let output = command.output().expect("hitm starts");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert!(!report("").contains("false_sharing.c:"), "it is stripped");
    let named = report(&url);
    assert!(named.contains("false_sharing.c:"), "{named}");
}

/// The ways of a hostile server.
#[derive(Debug, Clone, Copy)]
enum Hostile {
    /// Takes the request and says nothing.
    Silent,
    /// Sends a byte now and then.
    Slow,
    /// Sends the same for ever, without a length.
    Endless,
    /// Sends everybody back to itself.
    Redirecting,
    /// Sends a program of another build id.
    Other,
}

/// Counts of a hostile server.
#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

/// Serves one client until it goes away.
fn attack(stream: &TcpStream, how: Hostile, url: &str, seen: &Seen) -> std::io::Result<()> {
    seen.requests.fetch_add(1, Ordering::Relaxed);
    let mut lines = BufReader::new(stream).lines();
    while !lines.next().unwrap_or(Ok(String::new()))?.is_empty() {}
    let mut stream = stream;
    match how {
        Hostile::Silent => stream.read_exact(&mut [0]),
        Hostile::Slow => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")?;
            loop {
                stream.write_all(b"x")?;
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Hostile::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&[0x7f; 1 << 16])?;
                seen.bytes.fetch_add(1 << 16, Ordering::Relaxed);
            }
        }
        Hostile::Redirecting => write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {url}/again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ),
        Hostile::Other => {
            let body = fs::read(programs::hitm())?;
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            )?;
            stream.write_all(&body)
        }
    }
}

/// Starts a server, which ends with the test.
fn serve(how: Hostile) -> (String, Arc<Seen>) {
    let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", server.local_addr().expect("its address"));
    let seen = Arc::new(Seen::default());
    let (copy, base) = (Arc::clone(&seen), url.clone());
    std::thread::spawn(move || {
        for stream in server.incoming().flatten() {
            let (seen, base) = (Arc::clone(&copy), base.clone());
            std::thread::spawn(move || attack(&stream, how, &base, &seen));
        }
    });
    (url, seen)
}

#[test]
fn a_hostile_server_costs_little_time_and_no_disk() {
    let test = "a_hostile_server_costs_little_time_and_no_disk";
    if Command::new("debuginfod-find").output().is_err() {
        return programs::say_not_run(test, "no debuginfod-find");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = programs::root().join("examples/false_sharing.c");
    let program = programs::build(directory, "stripped", &source, &[]);
    tool("strip", &[&program]);
    let recording = programs::record(directory, &program, &["2000".into()]);
    let ways = [
        Hostile::Silent,
        Hostile::Slow,
        Hostile::Endless,
        Hostile::Redirecting,
        Hostile::Other,
    ];
    for how in ways {
        let (url, seen) = serve(how);
        let cache = directory.join(format!("{how:?}"));
        let mut report = Command::new(programs::hitm());
        report.args(["report", "-i"]).arg(&recording);
        report.env("DEBUGINFOD_URLS", url);
        report.env("DEBUGINFOD_CACHE_PATH", &cache);
        // Limits that a test can wait for. The client does not hold all of them by itself.
        report.env("DEBUGINFOD_TIMEOUT", "1");
        report.env("DEBUGINFOD_MAXTIME", "20");
        if let Hostile::Endless = how {
            report.env("DEBUGINFOD_MAXSIZE", "1000000");
        }
        let (code, said) = programs::in_time(&mut report);
        assert_eq!(code, Some(0), "{how:?}: {said}");
        let (requests, bytes) = (&seen.requests, &seen.bytes);
        let requests = requests.load(Ordering::Relaxed);
        let bytes = bytes.load(Ordering::Relaxed);
        match how {
            Hostile::Silent | Hostile::Slow => {
                assert_eq!(requests, 1, "{how:?}: {said}");
                assert!(said.contains("they were asked no more"), "{how:?}: {said}");
            }
            // Buffers on the way hold some MB.
            Hostile::Endless => assert!(bytes < requests * (64 << 20), "{bytes} bytes"),
            Hostile::Redirecting | Hostile::Other => assert!(requests > 0),
        }
        assert!(!said.contains("false_sharing.c:"), "{how:?}: {said}");
        if !matches!(how, Hostile::Other) {
            assert_eq!(bytes_in(&cache), 0, "{how:?}");
        }
    }
}

/// Bytes of the debug information in a cache of debuginfod, whole or in part.
fn bytes_in(cache: &Path) -> u64 {
    let folders = fs::read_dir(cache).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
    let sizes = files.flatten().map(|file| file.metadata());
    sizes.map(|data| data.map_or(0, |data| data.len())).sum()
}
