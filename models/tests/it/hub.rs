//! A hub on 127.0.0.1 that serves one file as well or as badly as a test asks for.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use models::PullOptions;

/// How the hub answers one request; the last one of a script is used for all that follow.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// The file, or the range asked for.
    Good,
    /// The whole file, whatever range was asked for.
    NoRanges,
    /// As Good, and the connection closes after so many bytes.
    CutAfter(usize),
    /// As Good, and the hub falls silent after so many bytes.
    SilentAfter(usize),
    /// As Good, with a pause before the body.
    Slow(Duration),
    /// Only a status.
    Status(u16),
    /// A page of another length, with status 200.
    LoginPage,
    /// Neither a length nor the end of the file.
    CutWithoutLength(usize),
}

pub struct Hub {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub path: String,
    pub range: Option<String>,
    pub authorization: Option<String>,
}

impl Hub {
    pub fn serve(body: &[u8], script: &[Answer]) -> Hub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, body, script) = (requests.clone(), Arc::new(body.to_vec()), script.to_vec());
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let answer = script[number.min(script.len() - 1)];
                let (seen, body) = (seen.clone(), body.clone());
                // A client that hangs up early is what some tests are about.
                std::thread::spawn(move || answer_one(stream.unwrap(), answer, &body, &seen).ok());
            }
        });
        Hub { url, requests }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub fn options(&self) -> PullOptions {
        PullOptions { hf_endpoint: Some(self.url.clone()), ..PullOptions::default() }
    }
}

fn answer_one(stream: TcpStream, answer: Answer, file: &[u8], seen: &Mutex<Vec<Request>>) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let request = read_request(BufReader::new(stream))?;
    seen.lock().unwrap().push(request.clone());
    let asked =
        request.range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let start: usize = asked.filter(|_| !matches!(answer, Answer::NoRanges)).unwrap_or(0);
    let body = &file[start.min(file.len())..];
    let head = |length: usize| match start {
        0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"),
        _ => format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{}/{}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n",
            file.len() - 1,
            file.len()
        ),
    };
    match answer {
        Answer::Status(code) => write!(out, "HTTP/1.1 {code} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        Answer::LoginPage => write!(out, "{}<html>", head(6)),
        Answer::CutWithoutLength(bytes) => {
            write!(out, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            out.write_all(&body[..bytes])
        }
        Answer::Good | Answer::NoRanges => {
            out.write_all(head(body.len()).as_bytes())?;
            out.write_all(body)
        }
        Answer::Slow(pause) => {
            sleep(pause);
            out.write_all(head(body.len()).as_bytes())?;
            out.write_all(body)
        }
        Answer::CutAfter(bytes) | Answer::SilentAfter(bytes) => {
            out.write_all(head(body.len()).as_bytes())?;
            out.write_all(&body[..bytes.min(body.len())])?;
            out.flush()?;
            if matches!(answer, Answer::SilentAfter(_)) {
                sleep(Duration::from_secs(60));
            }
            Ok(())
        }
    }
}

fn read_request(from: impl BufRead) -> std::io::Result<Request> {
    let mut request = Request::default();
    for line in from.lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("range") => request.range = Some(value.into()),
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                request.authorization = Some(value.into());
            }
            Some(_) => {}
            None => request.path = line.split(' ').nth(1).unwrap_or_default().into(),
        }
    }
    Ok(request)
}
