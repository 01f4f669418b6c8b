//! Debug information from a server of debuginfod.

use hitm_test::process::Command;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

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
