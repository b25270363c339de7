//! How is the index asked over HTTP? On loopback only, and never by a page that a browser shows.
//!
//! | | |
//! |---|---|
//! | `POST /v1/TOOL` | one tool, its arguments as a JSON object, its answer as JSON |
//! | `GET /v1/tools` | the tools with the schemas of their arguments |
//! | `POST /mcp` | the same as MCP (streamable HTTP, one message, one answer, no streams) |
//! | `GET /health` | 200 |

use super::MESSAGE_BYTES_MAX;
use super::mcp;
use super::tools::{Desk, TOOLS, ToolError};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::ORIGIN;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

/// The routes.
pub fn routes(desk: Desk) -> Router {
    Router::new()
        .route("/v1/tools", get(tools))
        .route("/v1/{tool}", post(ask))
        .route("/mcp", post(message))
        .route("/health", get(async || Json(json!({"status": "ready"}))))
        .layer(DefaultBodyLimit::max(MESSAGE_BYTES_MAX))
        .layer(middleware::from_fn(no_pages))
        .with_state(desk)
}

/// A program sends no Origin; a page cannot help it.
async fn no_pages(request: Request, next: Next) -> Response {
    if request.headers().contains_key(ORIGIN) {
        return failed(StatusCode::FORBIDDEN, "a page in a browser may not ask; use a program");
    }
    next.run(request).await
}

fn failed(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({"error": {"message": why}}))).into_response()
}

async fn tools() -> Json<Value> {
    let told = |tool: &super::tools::Tool| json!({"name": tool.name, "about": tool.about, "arguments": tool.schema()});
    Json(TOOLS.iter().map(told).collect())
}

async fn ask(State(desk): State<Desk>, Path(tool): Path<String>, body: Bytes) -> Response {
    let Ok(arguments) = serde_json::from_slice::<Value>(&body) else {
        return failed(StatusCode::BAD_REQUEST, "the body must be a JSON object with the arguments");
    };
    let asked = tokio::task::spawn_blocking(move || desk.ask(&tool, arguments)).await;
    match asked {
        Ok(Ok(answer)) => Json(answer.value).into_response(),
        Ok(Err(ToolError::Unknown(name))) => {
            failed(StatusCode::NOT_FOUND, &format!("there is no tool {name:?}; GET /v1/tools lists them"))
        }
        Ok(Err(ToolError::Arguments(why))) => failed(StatusCode::BAD_REQUEST, &why),
        Err(_) => failed(StatusCode::INTERNAL_SERVER_ERROR, "the question could not be answered"),
    }
}

async fn message(State(desk): State<Desk>, body: Bytes) -> Response {
    match tokio::task::spawn_blocking(move || mcp::answer(&body, &desk)).await {
        Ok(Some(answer)) => Json(answer).into_response(),
        Ok(None) => StatusCode::ACCEPTED.into_response(),
        Err(_) => failed(StatusCode::INTERNAL_SERVER_ERROR, "the message could not be answered"),
    }
}
