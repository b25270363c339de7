//! How is an engine spoken to?
//!
//! The client is asynchronous and the rest of this crate is not: each [`Engine`] has a small runtime of its own on the calling
//! thread, and nothing of it is seen outside.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, ContainerWaitResponse, VolumeCreateRequest};
use bollard::query_parameters::{
    AttachContainerOptions, CreateContainerOptions, CreateImageOptions, InspectContainerOptions, KillContainerOptions,
    ListContainersOptions, ListVolumesOptions, RemoveContainerOptions, RemoveVolumeOptions, StartContainerOptions,
    WaitContainerOptions,
};
use bollard::{ClientVersion, Docker, body_full};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt;

use super::socket::Socket;
use crate::container::Watch;
use crate::job::Ending;
use crate::pump::{Budget, Taken};

/// Why an engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nobody answers at the socket.
    #[error("no engine answers at {socket}: {reason}; start one, or name its socket with CLOISTER_DOCKER=unix:///path")]
    Silent {
        /// Where it was looked for.
        socket: Socket,
        /// What was said instead.
        reason: String,
    },
    /// It answered with an error.
    #[error("the engine could not {what}: {reason}")]
    Refused {
        /// What it was asked for.
        what: &'static str,
        /// In its words.
        reason: String,
    },
}

/// What an engine says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its version.
    pub version: String,
    /// The version of its API.
    pub api: String,
    /// How it stores images.
    pub storage_driver: String,
    /// Kernel features that it says it uses (seccomp, apparmor, …).
    pub security: Vec<String>,
}

/// A connection to an engine.
pub(crate) struct Engine {
    runtime: Runtime,
    docker: Docker,
}

/// How a container ended.
pub(super) struct Ended {
    /// Its exit code.
    pub(super) code: i64,
    /// Why it was killed, when it was.
    pub(super) stopped: Option<Ending>,
    pub(super) out_of_memory: bool,
    pub(super) stdout: Taken,
    pub(super) stderr: Taken,
}

/// Seconds that the engine may take for the beginning of an answer.
const ANSWER_SECONDS_MAX: u64 = 60;
/// The API of Docker 20.10, the oldest that is spoken.
const API: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };
/// How long what a container has written may be on its way after its end.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(2);
/// How long a killed container may take to be gone.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);

/// The exit code that a shell gives for a child that was killed.
const KILLED: i64 = 128 + 9;
/// How often, and after what pause each, it is asked again whether memory ran out.
const OUT_OF_MEMORY_LOOKS: usize = 5;
const OUT_OF_MEMORY_PAUSE: Duration = Duration::from_millis(40);

fn refused(what: &'static str) -> impl FnOnce(Error) -> EngineError {
    move |error| EngineError::Refused { what, reason: words(&error) }
}

fn words(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => message.clone(),
        error => error.to_string(),
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 404, .. })
}

impl Engine {
    /// Connects and agrees on a version of the API.
    pub(crate) fn connect(socket: &Socket) -> Result<Engine, EngineError> {
        let silent = |reason: String| EngineError::Silent { socket: socket.clone(), reason };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| silent(error.to_string()))?;
        let docker = runtime.block_on(async {
            Docker::connect_with_unix(&socket.to_string(), ANSWER_SECONDS_MAX, &API)?.negotiate_version().await
        });
        Ok(Engine { runtime, docker: docker.map_err(|error| silent(words(&error)))? })
    }

    /// What it says about itself.
    pub(crate) fn about(&self) -> Result<About, EngineError> {
        let (version, info) = self.runtime.block_on(async { (self.docker.version().await, self.docker.info().await) });
        let (version, info) =
            (version.map_err(refused("tell its version"))?, info.map_err(refused("describe itself"))?);
        Ok(About {
            version: version.version.unwrap_or_default(),
            api: version.api_version.unwrap_or_default(),
            storage_driver: info.driver.unwrap_or_default(),
            security: info.security_options.unwrap_or_default(),
        })
    }

    /// Imports the image `repository:tag` from a tar, unless it is there.
    pub(super) fn ensure_image(&self, repository: &str, tag: &str, tar: Vec<u8>) -> Result<String, EngineError> {
        let name = format!("{repository}:{tag}");
        self.runtime.block_on(async {
            match self.docker.inspect_image(&name).await {
                Ok(_) => return Ok(name),
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(refused("look for the image")(error)),
            }
            let options = CreateImageOptions {
                from_src: Some("-".into()),
                repo: Some(repository.into()),
                tag: Some(tag.into()),
                ..CreateImageOptions::default()
            };
            let mut told = Box::pin(self.docker.create_image(Some(options), Some(body_full(tar.into())), None));
            while let Some(line) = told.next().await {
                line.map_err(refused("import the image"))?;
            }
            Ok(name)
        })
    }

    /// Runs one container to its end. `mounted` is called when its workspace is mounted. What it was made of is still there
    /// afterwards, whether there is an error or not: [`Engine::remove`] it.
    pub(super) fn run(
        &self,
        name: &str,
        (body, volume): (ContainerCreateBody, VolumeCreateRequest),
        stdin: Option<Vec<u8>>,
        watch: &mut Watch<'_>,
        mounted: impl FnOnce(),
    ) -> Result<Ended, EngineError> {
        self.runtime.block_on(async {
            self.docker.create_volume(volume).await.map_err(refused("make the workspace"))?;
            let options = CreateContainerOptions { name: Some(name.into()), ..CreateContainerOptions::default() };
            self.docker.create_container(Some(options), body).await.map_err(refused("make the container"))?;
            let options = AttachContainerOptions {
                stream: true,
                stdin: stdin.is_some(),
                stdout: true,
                stderr: true,
                ..AttachContainerOptions::default()
            };
            // Before it starts, so that nothing is missed.
            let streams = self.docker.attach_container(name, Some(options)).await.map_err(refused("attach"))?;
            let started = self.docker.start_container(name, None::<StartContainerOptions>).await;
            mounted();
            started.map_err(refused("start the container"))?;
            self.watch(name, streams, stdin, watch).await
        })
    }

    /// Takes the output of a running container until it ends or has to.
    async fn watch(
        &self,
        name: &str,
        streams: AttachContainerResults,
        stdin: Option<Vec<u8>>,
        watch: &mut Watch<'_>,
    ) -> Result<Ended, EngineError> {
        let AttachContainerResults { mut output, mut input } = streams;
        // A job that does not read its input just ends; without input the other direction stays open until then.
        let fed = tokio::spawn(async move {
            if let Some(bytes) = stdin {
                let _ = input.write_all(&bytes).await;
                let _ = input.shutdown().await;
            }
            input
        });
        let options = WaitContainerOptions { condition: "not-running".into() };
        let mut end = Box::pin(self.docker.wait_container(name, Some(options)));
        let mut taken =
            Output { stdout: Taken::default(), stderr: Taken::default(), budget: Arc::clone(&watch.budget) };
        let mut kill = Box::pin(self.kill(name));
        let (mut is_open, mut is_killed, mut stopped) = (true, false, None);
        let code = loop {
            // Output is taken while the container is being killed too: the engine waits until somebody has it all.
            tokio::select! {
                piece = output.next(), if is_open => is_open = taken.add(piece),
                ended = end.next() => break code(ended)?,
                killed = &mut kill, if stopped.is_some() && !is_killed => {
                    killed?;
                    is_killed = true;
                }
                () = tokio::time::sleep(watch.pause()) => {}
            }
            match stopped {
                None => stopped = watch.verdict().map(|ending| (ending, Instant::now())),
                Some((_, since)) if since.elapsed() > DEATH_PATIENCE => {
                    let reason = "it is still there long after it was killed".to_owned();
                    return Err(EngineError::Refused { what: "kill the container", reason });
                }
                Some(_) => {}
            }
        };
        let rest = async {
            while is_open {
                is_open = taken.add(output.next().await);
            }
        };
        let _ = tokio::time::timeout(OUTPUT_PATIENCE, rest).await;
        fed.abort();
        let mut out_of_memory = self.was_out_of_memory(name).await?;
        // That memory ran out may be told after the end that came of it.
        for _ in 0..OUT_OF_MEMORY_LOOKS {
            if out_of_memory || stopped.is_some() || code != KILLED {
                break;
            }
            tokio::time::sleep(OUT_OF_MEMORY_PAUSE).await;
            out_of_memory = self.was_out_of_memory(name).await?;
        }
        let Output { stdout, stderr, .. } = taken;
        let stopped = stopped.map(|(ending, _)| ending);
        Ok(Ended { code, stopped, out_of_memory, stdout, stderr })
    }

    async fn was_out_of_memory(&self, name: &str) -> Result<bool, EngineError> {
        let told = self.docker.inspect_container(name, None::<InspectContainerOptions>).await;
        let state = told.map_err(refused("look at the container"))?.state.unwrap_or_default();
        Ok(state.oom_killed == Some(true))
    }

    /// Kills process 1 of a container, and with it, as it leads the process-id namespace, every other one.
    async fn kill(&self, name: &str) -> Result<(), EngineError> {
        let options = KillContainerOptions { signal: "KILL".into() };
        match self.docker.kill_container(name, Some(options)).await {
            // It has just ended by itself.
            Err(Error::DockerResponseServerError { status_code: 404 | 409, .. }) => Ok(()),
            answer => answer.map_err(refused("kill the container")),
        }
    }

    /// Removes a container, whatever it does, and its workspace, and proves that both are gone.
    pub(super) fn remove(&self, name: &str) -> Result<(), EngineError> {
        let gone = |answer: Result<(), Error>| match answer {
            Err(error) if is_missing(&error) => Ok(()),
            answer => answer,
        };
        self.runtime.block_on(async {
            let options = RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
            gone(self.docker.remove_container(name, Some(options)).await).map_err(refused("remove the container"))?;
            let options = RemoveVolumeOptions { force: true };
            gone(self.docker.remove_volume(name, Some(options)).await).map_err(refused("remove the workspace"))?;
            let container = self.docker.inspect_container(name, None::<InspectContainerOptions>).await.err();
            let volume = self.docker.inspect_volume(name).await.err();
            if container.as_ref().is_some_and(is_missing) && volume.as_ref().is_some_and(is_missing) {
                return Ok(());
            }
            let reason = "it says that it did, and it is still there".to_owned();
            Err(EngineError::Refused { what: "remove the container", reason })
        })
    }

    /// Names of the containers and of the volumes that carry all of these labels.
    pub(super) fn labelled(&self, labels: &HashMap<String, String>) -> Result<BTreeSet<String>, EngineError> {
        let labels = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        let filters = Some(HashMap::from([("label".to_owned(), labels)]));
        let options = ListContainersOptions { all: true, filters: filters.clone(), ..ListContainersOptions::default() };
        let (containers, volumes) = self.runtime.block_on(async {
            let containers = self.docker.list_containers(Some(options)).await;
            (containers, self.docker.list_volumes(Some(ListVolumesOptions { filters })).await)
        });
        let containers = containers.map_err(refused("list containers"))?.into_iter();
        let volumes = volumes.map_err(refused("list volumes"))?.volumes.unwrap_or_default().into_iter();
        let names = containers.flat_map(|container| container.names.unwrap_or_default());
        let names = names.map(|name| name.trim_start_matches('/').to_owned());
        Ok(names.chain(volumes.map(|volume| volume.name)).collect())
    }
}

/// What a container has written.
struct Output {
    stdout: Taken,
    stderr: Taken,
    budget: Arc<Budget>,
}

impl Output {
    /// Keeps a piece; says whether more may come.
    fn add(&mut self, piece: Option<Result<LogOutput, Error>>) -> bool {
        match piece {
            Some(Ok(LogOutput::StdErr { message })) => self.stderr.add(&message, &self.budget),
            Some(Ok(piece)) => self.stdout.add(&piece.into_bytes(), &self.budget),
            Some(Err(_)) | None => return false,
        }
        true
    }
}

/// The exit code in the answer of the one who waits.
fn code(ended: Option<Result<ContainerWaitResponse, Error>>) -> Result<i64, EngineError> {
    match ended {
        Some(Ok(ended)) => Ok(ended.status_code),
        Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(code),
        Some(Err(error)) => Err(refused("wait for the container")(error)),
        None => {
            let reason = "it stopped telling how the container is".to_owned();
            Err(EngineError::Refused { what: "wait for the container", reason })
        }
    }
}
