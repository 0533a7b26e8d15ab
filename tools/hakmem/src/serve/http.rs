// SPDX-License-Identifier: MIT
//! As much of HTTP as readers of figures need: a request, which httparse reads, its answer, and the connection ends.
//!
//! No reader keeps the others out: each has to send its request soon, and so many at most are served at once. Others
//! wait until one of those is done. (Of the small servers that there are, tiny_http ends when descriptors run out, and
//! a dozen idle connections keep its readers out.)

use crate::output::remark;
use crate::signals;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Half of the descriptors where there are few of them (256).
pub const CONNECTIONS_MAX: usize = 128;
const HEAD_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 100;
/// From a reader: its request, and that it takes all that is sent.
const REQUEST: Duration = Duration::from_secs(5);
const TAKES: Duration = Duration::from_secs(60);
/// What it sends besides is thrown away, or it would not see its answer.
const REST: Duration = Duration::from_secs(1);
/// Between two looks whether a signal has come, and before the next try to let a reader in.
const LOOK: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_secs(1);
const FULL: Duration = Duration::from_millis(20);
/// For the answers that are being made when a signal comes. One may wait for what does not return.
const LAST: Duration = Duration::from_secs(10);

#[derive(Debug, PartialEq)]
pub struct Request {
    pub method: String,
    pub target: String,
    /// All of its Accept headers.
    pub accept: String,
}

pub struct Answer {
    pub status: u16,
    pub kind: &'static str,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(status: u16, text: impl Into<String>) -> Answer {
        Answer { status, kind: "text/plain; charset=UTF-8", body: text.into().into_bytes() }
    }

    fn head(&self) -> String {
        let word = match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        };
        let (status, kind, length) = (self.status, self.kind, self.body.len());
        format!(
            "HTTP/1.1 {status} {word}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )
    }
}

enum Head {
    Partial,
    Whole(Request),
    Wrong,
}

fn head_of(bytes: &[u8]) -> Head {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => Head::Partial,
        Err(_) => Head::Wrong,
        Ok(httparse::Status::Complete(_)) => {
            let accepts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
            let accepts: Vec<_> = accepts.map(|header| String::from_utf8_lossy(header.value)).collect();
            Head::Whole(Request {
                method: request.method.unwrap_or_default().into(),
                target: request.path.unwrap_or_default().into(),
                accept: accepts.join(", "),
            })
        }
    }
}

/// Who waits for an answer.
pub struct Reader<'a>(&'a TcpStream);

impl Reader<'_> {
    /// It has closed its connection, or its side of it.
    pub fn has_left(&self) -> bool {
        let end = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
        polled(self.0.as_raw_fd(), libc::POLLRDHUP, Duration::ZERO) & end != 0
    }
}

/// Until a signal comes, and the requests that had come are answered. An answer may take its time.
pub fn serve<Made>(listener: &TcpListener, answer: Made) -> io::Result<()>
where
    Made: Fn(&Request, &Reader) -> Answer + Send + Sync + 'static,
{
    listener.set_nonblocking(true)?;
    let (open, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
    while !signals::came() {
        let Some(place) = Place::taken(&open, CONNECTIONS_MAX) else {
            thread::sleep(FULL);
            continue;
        };
        if !is_ready(listener) {
            continue;
        }
        let outcome = listener.accept().and_then(|(stream, _)| {
            let answer = answer.clone();
            let serve = move || {
                let _ = one(stream, &*answer); // a reader that has left is nothing to this side
                drop(place);
            };
            thread::Builder::new().spawn(serve).map(|_| ())
        });
        match outcome {
            Err(error) if !has_left(&error) => {
                remark(format_args!("hakmem: a reader has to wait: {error}"));
                thread::sleep(PAUSE);
            }
            _ => {}
        }
    }
    let end = Instant::now() + LAST;
    while open.load(Ordering::Acquire) > 0 && Instant::now() < end {
        thread::sleep(FULL);
    }
    Ok(())
}

/// The reader, before it was let in.
fn has_left(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

fn is_ready(listener: &TcpListener) -> bool {
    polled(listener.as_raw_fd(), libc::POLLIN, LOOK) != 0
}

/// Which of the events there are within that time, and what is wrong with the descriptor.
fn polled(fd: RawFd, events: i16, time: Duration) -> i16 {
    let mut poll = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one valid pollfd.
    let count = unsafe { libc::poll(&mut poll, 1, time.as_millis() as i32) };
    match count {
        1.. => poll.revents,
        _ => 0,
    }
}

/// One of so many at most, until it is dropped.
pub struct Place(Arc<AtomicUsize>);

impl Place {
    /// None: all are taken.
    pub fn taken(count: &Arc<AtomicUsize>, most: usize) -> Option<Place> {
        let more = |taken| (taken < most).then_some(taken + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Place(count.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release); // pairs with the acquire in serve
    }
}

fn one(mut stream: TcpStream, answer: &impl Fn(&Request, &Reader) -> Answer) -> io::Result<()> {
    let (mut bytes, mut head) = (Vec::new(), Head::Partial);
    read_until(&mut stream, REQUEST, |part| {
        bytes.extend_from_slice(part);
        head = head_of(&bytes);
        !matches!(head, Head::Partial) || bytes.len() > HEAD_MAX
    })?;
    let (said, is_head) = match head {
        Head::Partial => return Ok(()),
        Head::Wrong => (Answer::text(400, "this is no HTTP/1 request\n"), false),
        Head::Whole(request) => (answer(&request, &Reader(&stream)), request.method == "HEAD"),
    };
    let mut sent = said.head().into_bytes();
    if !is_head {
        sent.extend_from_slice(&said.body);
    }
    write_within(&mut stream, TAKES, &sent)?;
    stream.shutdown(Shutdown::Write)?;
    read_until(&mut stream, REST, |_| false).map(|_| ())
}

/// An error when the reader has not taken all in time, or keeps it waiting when a signal comes.
fn write_within(stream: &mut TcpStream, patience: Duration, mut bytes: &[u8]) -> io::Result<()> {
    let end = Instant::now() + patience;
    stream.set_write_timeout(Some(LOOK))?;
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(count) if Instant::now() < end => bytes = &bytes[count..],
            Err(error) if is_only_late(&error) && Instant::now() < end && !signals::came() => {}
            outcome => return outcome.and(Err(ErrorKind::TimedOut.into())),
        }
    }
    Ok(())
}

fn is_only_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Whether it came so far that `is_enough`, before the reader left, the time was over or a signal came.
fn read_until(
    stream: &mut TcpStream,
    patience: Duration,
    mut is_enough: impl FnMut(&[u8]) -> bool,
) -> io::Result<bool> {
    let end = Instant::now() + patience;
    let mut part = [0; 4096];
    stream.set_read_timeout(Some(LOOK))?;
    while Instant::now() < end && !signals::came() {
        match stream.read(&mut part) {
            Ok(0) => return Ok(false),
            Ok(length) if is_enough(&part[..length]) => return Ok(true),
            Err(error) if !is_only_late(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(said: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        reader.write_all(said.as_bytes()).unwrap();
        reader.shutdown(Shutdown::Write).unwrap();
        let stream = listener.accept().unwrap().0;
        one(stream, &|request, _| Answer::text(200, format!("{} {}", request.target, request.accept))).unwrap();
        let mut answer = String::new();
        reader.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_request_has_an_answer() {
        let said = answered("GET /a?b=c HTTP/1.1\r\nHost: x\r\naccept: d\r\nAccept:e;q=1\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\n/a?b=c d, e;q=1"), "{said}");
        assert!(said.contains("\r\nContent-Length: 15\r\nConnection: close\r\n"), "{said}");
        let head = answered("HEAD / HTTP/1.0\r\n\r\n");
        assert!(head.contains("Content-Length: 2\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn what_is_no_request_is_told_so_or_left() {
        for said in ["GET /\r\n\r\n", "GET / SPDY/3\r\n\r\n", "\u{16}\u{3}\r\n\r\n"] {
            assert!(answered(said).starts_with("HTTP/1.1 400 Bad Request\r\n"), "{said}");
        }
        let long = format!("GET / HTTP/1.1\r\n{}\r\n\r\n", "a".repeat(2 * HEAD_MAX));
        assert_eq!([answered("GET / HTTP/1.1\r\n"), answered("")], ["", ""]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        reader.write_all(long.as_bytes()).unwrap();
        let _ = one(listener.accept().unwrap().0, &|_, _| Answer::text(200, "never"));
        let mut answer = String::new();
        let _ = reader.read_to_string(&mut answer);
        assert_eq!(answer, "");
    }

    #[test]
    fn a_reader_that_leaves_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let readers = [(); 2].map(|()| TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let sides = [(); 2].map(|()| listener.accept().unwrap().0);
        let has_left = |at: usize| Reader(&sides[at]).has_left();
        assert_eq!([has_left(0), has_left(1)], [false, false]);
        (&readers[0]).write_all(b"and more").unwrap();
        readers[0].shutdown(Shutdown::Write).unwrap();
        let begin = Instant::now();
        while !has_left(0) {
            assert!(begin.elapsed() < Duration::from_secs(60));
        }
        assert!(!has_left(1));
    }

    #[test]
    fn places_are_so_many_at_most() {
        let count = Arc::new(AtomicUsize::new(0));
        let first = Place::taken(&count, 2);
        let second = Place::taken(&count, 2);
        assert!(first.is_some() && second.is_some() && Place::taken(&count, 2).is_none());
        drop(first);
        assert!(Place::taken(&count, 2).is_some());
    }

    #[test]
    fn a_body_is_thrown_away() {
        let said = answered(&format!("POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{}", "b".repeat(100_000)));
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    }
}
