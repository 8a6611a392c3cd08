//! A small HTTP server: for pages that one user looks at, on 127.0.0.1 under a token ([`Server::new`]), and
//! for programs that may send a bearer token ([`Server::open`]).
//!
//! [`Server::serve`] gets connections. Each has a thread, which reads a request ([`read`]) and hands it to
//! the thread of the caller, because answers come from data that is not shared between threads. A request is
//! answered, and its connection closed.
//!
//! Rule: any user of this machine can connect, so nothing that comes without the token may cost more than its
//! head: [`MOST_HEAD`] bytes within [`HEAD_TIME`]. No request ends the server. If [`MOST_CONNECTIONS`] are
//! there, the oldest without the token makes room.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bound on the line and the fields of a request, bytes. Browsers send about 1000.
const MOST_HEAD: usize = 16 << 10;
/// Bound on the fields of a request.
const MOST_FIELDS: usize = 64;
/// Bound on the time until a head is here. Browsers also open connections in advance, and leave them silent.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Bound on the body of a question, which names no more lanes than fit into it, bytes.
const MOST_BODY: u64 = 8 << 20;
/// Bound on the time until a body is here, and on the time in which an answer makes no progress.
const BODY_TIME: Duration = Duration::from_secs(60);
/// Bound on the connections at one time.
const MOST_CONNECTIONS: usize = 64;

/// The status of a method that is not answered. The field Allow belongs to it.
const NOT_ALLOWED: &str = "405 Method Not Allowed";

/// What a page may do: use this address, and nothing else.
const POLICY: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A request that came with the token.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// GET, or else POST.
    pub is_get: bool,
    /// After the token: `/`, or `/data.json`.
    pub path: String,
    /// After the question mark.
    pub query: String,
    /// Of a POST.
    pub body: Vec<u8>,
}

/// What a request gets.
#[derive(Debug)]
pub struct Response {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Response {
    /// With a status such as `200 OK`, and a media type.
    pub fn new(status: &'static str, kind: &'static str, body: impl Into<Vec<u8>>) -> Response {
        Response {
            status,
            kind,
            body: body.into(),
        }
    }

    /// That this address is only read.
    fn read_only() -> Response {
        Response::plain(NOT_ALLOWED, "only GET is answered here\n")
    }

    /// That there is nothing. Whoever lacks the token learns no more.
    pub fn nothing() -> Response {
        Response::plain("404 Not Found", "not here\n")
    }

    fn plain(status: &'static str, text: &str) -> Response {
        Response::new(status, "text/plain; charset=utf-8", text)
    }

    fn write(&self, mut out: impl Write) -> io::Result<()> {
        let Response { status, kind, body } = self;
        let length = body.len();
        let allow = if *status == NOT_ALLOWED {
            "Allow: GET\r\n"
        } else {
            ""
        };
        write!(
            out,
            "HTTP/1.1 {status}\r\n{allow}Connection: close\r\nContent-Type: {kind}\r\n\
             Content-Length: {length}\r\nContent-Security-Policy: {POLICY}\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cache-Control: no-store\r\n\r\n"
        )?;
        out.write_all(body)?;
        out.flush()
    }
}

/// Who may ask.
#[derive(Clone)]
struct Door {
    port: u16,
    key: Key,
}

/// What opens a door.
#[derive(Clone)]
enum Key {
    /// A token at the beginning of the path.
    Path(String),
    /// A token in the field Authorization.
    Bearer(String),
    /// Nothing.
    Open,
}

/// A connection that is served.
struct Connection {
    stream: TcpStream,
    /// Whether it has shown the token.
    is_known: AtomicBool,
    has_ended: AtomicBool,
}

/// A question and the way back.
type Asked = (Request, SyncSender<Response>);

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    door: Door,
}

impl Server {
    /// Listens on a port of 127.0.0.1; 0 takes a free one.
    ///
    /// # Errors
    /// When the port can't be used, or the system has no random numbers.
    pub fn new(port: u16) -> io::Result<Server> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let port = listener.local_addr()?.port();
        let key = Key::Path(token()?);
        Ok(Server {
            listener,
            door: Door { port, key },
        })
    }

    /// Listens at this address, for those who send this token; without one, for all who reach the address
    /// and name it as a loopback address.
    ///
    /// # Errors
    /// When the address can't be used.
    pub fn open(address: SocketAddr, token: Option<String>) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        let port = listener.local_addr()?.port();
        let key = token.map_or(Key::Open, Key::Bearer);
        Ok(Server {
            listener,
            door: Door { port, key },
        })
    }

    /// The address that it listens at.
    ///
    /// # Errors
    /// The system's.
    pub fn listens_at(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.door.port
    }

    /// Where the page is.
    pub fn address(&self) -> String {
        let token = match &self.door.key {
            Key::Path(token) => format!("{token}/"),
            Key::Bearer(_) | Key::Open => String::new(),
        };
        format!("http://127.0.0.1:{}/{token}", self.door.port)
    }

    /// Answers requests, one after the other, for as long as the process runs.
    ///
    /// # Errors
    /// When there can be no thread that accepts connections.
    pub fn serve(self, mut answer: impl FnMut(&Request) -> Response) -> io::Result<()> {
        let (ask, asked): (SyncSender<Asked>, Receiver<Asked>) = sync_channel(MOST_CONNECTIONS);
        let Server { listener, door } = self;
        std::thread::Builder::new()
            .name("listen".into())
            .spawn(move || listen(&listener, &door, &ask))?;
        for (request, back) in asked {
            // An answer that fails is that request's misfortune alone.
            let found = catch_unwind(AssertUnwindSafe(|| answer(&request)));
            let failed = |_| Response::plain("500 Internal Server Error", "this failed\n");
            let _ = back.send(found.unwrap_or_else(failed));
        }
        Ok(())
    }
}

fn listen(listener: &TcpListener, door: &Door, ask: &SyncSender<Asked>) {
    let open: Arc<Mutex<VecDeque<Arc<Connection>>>> = Arc::default();
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Without descriptors, until others have ended.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let connection = Arc::new(Connection {
            stream,
            is_known: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        });
        {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|other| !other.has_ended.load(Ordering::Acquire));
            if open.len() >= MOST_CONNECTIONS {
                let stranger = open
                    .iter()
                    .position(|o| !o.is_known.load(Ordering::Acquire));
                let Some(stranger) = stranger.and_then(|at| open.remove(at)) else {
                    continue;
                };
                let _ = stranger.stream.shutdown(Shutdown::Both);
            }
            open.push_back(connection.clone());
        }
        let (door, ask) = (door.clone(), ask.clone());
        let of_thread = connection.clone();
        let thread = std::thread::Builder::new().name("request".into());
        let spawned = thread.spawn(move || {
            let _ = catch_unwind(AssertUnwindSafe(|| serve(&of_thread, &door, &ask)));
            let _ = of_thread.stream.shutdown(Shutdown::Both);
            of_thread.has_ended.store(true, Ordering::Release);
        });
        if spawned.is_err() {
            let _ = connection.stream.shutdown(Shutdown::Both);
            connection.has_ended.store(true, Ordering::Release);
        }
    }
}

/// Serves one connection to its end. A browser that has gone away is no failure.
fn serve(connection: &Connection, door: &Door, ask: &SyncSender<Asked>) {
    // Where everybody is served, nobody keeps a connection for having asked.
    let has_token = !matches!(door.key, Key::Open);
    let known = || connection.is_known.store(has_token, Ordering::Release);
    let mut stream = Timed {
        stream: &connection.stream,
        until: Instant::now() + HEAD_TIME,
    };
    let response = match read(&mut stream, door, known) {
        Ok(request) => {
            let (back, answered) = sync_channel(1);
            if ask.send((request, back)).is_err() {
                return;
            }
            let Ok(response) = answered.recv() else {
                return;
            };
            response
        }
        Err(Some(refusal)) => refusal,
        Err(None) => return,
    };
    let _ = connection.stream.set_write_timeout(Some(BODY_TIME));
    let _ = response.write(io::BufWriter::new(&connection.stream));
}

/// A stream from which bytes must come until a moment.
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

/// What a request is read from.
trait Source {
    /// As [`Read::read`]; an error once the time is over.
    fn next(&mut self, into: &mut [u8]) -> io::Result<usize>;
    /// Gives more time from now on.
    fn extend(&mut self, time: Duration);
}

impl Source for Timed<'_> {
    fn next(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into)
    }

    fn extend(&mut self, time: Duration) {
        self.until = Instant::now() + time;
    }
}

/// Reads a request, of which nothing behind the head is looked at before the token is known, which is `known`
/// then. An error is the answer to give, if any.
fn read(
    stream: &mut impl Source,
    door: &Door,
    known: impl FnOnce(),
) -> Result<Request, Option<Response>> {
    let bad = || Some(Response::plain("400 Bad Request", "this is no request\n"));
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    let (mut request, head) = loop {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut parsed = httparse::Request::new(&mut fields);
        match parsed.parse(&bytes) {
            Ok(httparse::Status::Complete(head)) => break (admitted(&parsed, door)?, head),
            Ok(httparse::Status::Partial) if bytes.len() < MOST_HEAD => {}
            _ => return Err(bad()),
        }
        match stream.next(&mut part) {
            Ok(0) | Err(_) => return Err(None),
            Ok(n) => bytes.extend(&part[..n]),
        }
    };
    known();
    let Some(length) = request.1.take() else {
        return Ok(request.0);
    };
    let Some(length) = length.filter(|length| *length <= MOST_BODY) else {
        return Err(Some(Response::plain(
            "413 Content Too Large",
            "this is too long\n",
        )));
    };
    let length = length as usize;
    stream.extend(BODY_TIME);
    let mut body = bytes.split_off(head);
    while body.len() < length {
        let most = part.len().min(length - body.len());
        match stream.next(&mut part[..most]) {
            Ok(0) | Err(_) => return Err(None),
            Ok(n) => body.extend(&part[..n]),
        }
    }
    body.truncate(length);
    request.0.body = body;
    Ok(request.0)
}

/// A request without its body, and the length of that, if there is one and as far as it is a number.
type Head = (Request, Option<Option<u64>>);

/// What a head asks for, if it has the token. It must also name this address as its host, so that no page of
/// another site can reach it by a name of its own; a bearer token is nothing that a page could send.
fn admitted(parsed: &httparse::Request, door: &Door) -> Result<Head, Option<Response>> {
    let nothing = || Some(Response::nothing());
    let field = |name: &str| {
        let mut all = parsed
            .headers
            .iter()
            .filter(|f| f.name.eq_ignore_ascii_case(name));
        let value = all.next().map(|field| field.value);
        // Two of them are an attempt to be read in two ways.
        value.filter(|_| all.next().is_none())
    };
    let host = field("host").unwrap_or_default();
    let own = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{}", door.port));
    let is_bearer = matches!(door.key, Key::Bearer(_));
    if !is_bearer && !own.iter().any(|own| own.as_bytes() == host) {
        return Err(nothing());
    }
    // Programs only read; pages send the lanes that they ask about.
    let is_read_only = !matches!(door.key, Key::Path(_));
    let is_get = match parsed.method {
        Some("GET") => true,
        Some("POST") => false,
        _ if is_read_only => false,
        _ => return Err(nothing()),
    };
    let target = parsed.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = match &door.key {
        Key::Path(token) => {
            let own = path.strip_prefix('/').and_then(|path| {
                let (given, rest) = path.split_at_checked(token.len())?;
                is_equal(given.as_bytes(), token.as_bytes()).then_some(rest)
            });
            own.ok_or_else(nothing)?
        }
        Key::Bearer(token) => {
            let given = field("authorization").and_then(|value| value.strip_prefix(b"Bearer "));
            if !given.is_some_and(|given| is_equal(given.trim_ascii(), token.as_bytes())) {
                let text = "a bearer token is needed\n";
                return Err(Some(Response::plain("401 Unauthorized", text)));
            }
            path
        }
        Key::Open => path,
    };
    if is_read_only && !is_get {
        return Err(Some(Response::read_only()));
    }
    let request = Request {
        is_get,
        path: path.to_owned(),
        query: query.to_owned(),
        body: Vec::new(),
    };
    let length = (!is_get).then(|| {
        let text = std::str::from_utf8(field("content-length")?).ok()?;
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse().ok())?
    });
    Ok((request, length))
}

/// Whether two texts are equal, in a time that doesn't tell where they differ.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let differs = a.iter().zip(b).fold(0, |differs, (a, b)| differs | a ^ b);
    a.len() == b.len() && differs == 0
}

/// 128 random bits, as text.
fn token() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given(Vec<Vec<u8>>);

    impl Source for Given {
        fn next(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let Some(part) = self.0.first_mut() else {
                return Err(io::ErrorKind::TimedOut.into());
            };
            let n = part.len().min(into.len());
            into[..n].copy_from_slice(&part[..n]);
            part.drain(..n);
            if part.is_empty() {
                self.0.remove(0);
            }
            Ok(n)
        }

        fn extend(&mut self, _: Duration) {}
    }

    /// The request, or the status of the refusal, or nothing; and whether the token was seen.
    fn ask(text: &str) -> (Result<Request, Option<&'static str>>, bool) {
        ask_at(Key::Path("t0".to_owned()), text)
    }

    fn ask_at(key: Key, text: &str) -> (Result<Request, Option<&'static str>>, bool) {
        let door = Door { port: 80, key };
        let mut known = false;
        let halves = text.as_bytes().chunks(7).map(<[u8]>::to_vec);
        let read = read(&mut Given(halves.collect()), &door, || known = true);
        (
            read.map_err(|refusal| refusal.map(|r| &r.status[..3])),
            known,
        )
    }

    fn status(text: &str) -> Option<&'static str> {
        ask(text).0.expect_err("refused")
    }

    const HOST: &str = "Host: 127.0.0.1:80\r\n";

    #[test]
    fn questions_with_the_token_are_read_whole() {
        let get = ask(&format!("GET /t0/heat?from=1 HTTP/1.1\r\n{HOST}\r\n"));
        let request = get.0.expect("a request");
        assert_eq!(
            (request.path.as_str(), request.query.as_str()),
            ("/heat", "from=1")
        );
        let post =
            format!("POST /t0/heat HTTP/1.1\r\n{HOST}Content-Length: 5\r\n\r\n[1,2]and more");
        assert_eq!(ask(&post).0.expect("a request").body, b"[1,2]");
    }

    #[test]
    fn a_bearer_token_opens_by_any_name_of_the_host_and_nothing_else_does() {
        let ask = |fields: &str| {
            let text = format!("GET /metrics HTTP/1.1\r\n{fields}\r\n");
            ask_at(Key::Bearer("t0".to_owned()), &text).0
        };
        let path = ask("Host: node7:9477\r\nAuthorization: Bearer t0\r\n").map(|r| r.path);
        assert_eq!(path.expect("a request"), "/metrics");
        for wrong in [
            "",
            "Authorization: Bearer t1\r\n",
            "Authorization: Bearer t00\r\n",
            "Authorization: Basic t0\r\n",
            "Authorization: t0\r\n",
            "Authorization: Bearer t0\r\nAuthorization: Bearer t0\r\n",
        ] {
            assert_eq!(ask(&format!("{HOST}{wrong}")), Err(Some("401")), "{wrong}");
        }
    }

    #[test]
    fn without_a_token_only_loopback_names_are_served() {
        let ask = |host: &str| {
            let text = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
            ask_at(Key::Open, &text).0.is_ok()
        };
        assert!(ask("localhost:80") && ask("127.0.0.1:80") && ask("[::1]:80"));
        assert!(!ask("evil.example:80") && !ask("localhost:81"));
    }

    #[test]
    fn programs_only_read_whatever_they_send() {
        for method in ["POST", "PUT", "DELETE", "HEAD"] {
            for body in [
                "\r\n",
                "Content-Length: 5\r\n\r\nhello",
                "Transfer-Encoding: chunked\r\n\r\n",
                "Content-Length: 99999999\r\n\r\n",
            ] {
                let text = format!("{method} /metrics HTTP/1.1\r\n{HOST}{body}");
                assert_eq!(ask_at(Key::Open, &text).0, Err(Some("405")), "{text}");
                // Whoever lacks the token learns no more.
                let bearer = Key::Bearer("t0".to_owned());
                assert_eq!(ask_at(bearer, &text).0, Err(Some("401")), "{text}");
            }
        }
        let mut page = Vec::new();
        Response::read_only().write(&mut page).expect("written");
        let page = String::from_utf8(page).expect("text");
        assert!(
            page.contains("405 Method Not Allowed\r\nAllow: GET\r\n"),
            "{page}"
        );
    }

    #[test]
    fn lengths_that_are_no_lengths_are_refused() {
        for length in [
            "-1",
            "+1",
            "",
            "0x10",
            "99999999999999999999",
            "18446744073709551615",
            "9223372036854775807",
            "8388609",
            "1\r\nContent-Length: 2",
        ] {
            let of = |path: &str| {
                format!("POST /{path} HTTP/1.1\r\n{HOST}Content-Length: {length}\r\n\r\nx")
            };
            assert_eq!(status(&of("t0/heat")), Some("413"), "{length}");
            assert_eq!(status(&of("t1/heat")), Some("404"), "{length}");
        }
        assert_eq!(
            status(&format!("POST /t0/heat HTTP/1.1\r\n{HOST}\r\n")),
            Some("413")
        );
    }

    #[test]
    fn without_the_token_no_body_is_waited_for() {
        let (found, known) = ask(&format!(
            "POST /x HTTP/1.1\r\n{HOST}Content-Length: 5000000\r\n\r\n"
        ));
        assert_eq!((found, known), (Err(Some("404")), false));
        // With it, the body is waited for until its time is over.
        let (found, known) = ask(&format!(
            "POST /t0/ HTTP/1.1\r\n{HOST}Content-Length: 5\r\n\r\n"
        ));
        assert_eq!((found, known), (Err(None), true));
    }

    #[test]
    fn what_is_no_request_is_refused_or_left() {
        assert_eq!(
            status("GET /t0/ HTTP/1.1\r\nHost: evil.example:80\r\n\r\n"),
            Some("404")
        );
        assert_eq!(status("GET /t0/ HTTP/1.1\r\n\r\n"), Some("404"));
        assert_eq!(
            status(&format!("GET /t0/ HTTP/1.1\r\n{HOST}{HOST}\r\n")),
            Some("404")
        );
        assert_eq!(
            status(&format!("PUT /t0/ HTTP/1.1\r\n{HOST}\r\n")),
            Some("404")
        );
        assert_eq!(
            status(&format!("GET /t\u{e9} HTTP/1.1\r\n{HOST}\r\n")),
            Some("404")
        );
        assert_eq!(status("\r\n\x16\x03\x01\x02 TLS"), Some("400"));
        assert_eq!(
            status(&format!(
                "GET /{} HTTP/1.1\r\n{HOST}\r\n",
                "a".repeat(20_000)
            )),
            Some("400")
        );
        assert_eq!(
            status(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100))),
            Some("400")
        );
        assert_eq!(status("GET /t0/ HT"), None);
        assert_eq!(status(""), None);
    }
}
