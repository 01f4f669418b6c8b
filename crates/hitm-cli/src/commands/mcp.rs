//! `hitm mcp`: hitm's commands as tools of the Model Context Protocol, over standard input and output.
//!
//! A tool runs this program again with a command line, so that it answers what a user would read, and whatever a
//! recorded program prints stays out of the protocol.

mod answer;
mod tools;

use anyhow::{Result, anyhow};
use clap::Args;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;

use crate::{Exit, Terminal};

/// Options of `hitm mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {}

/// Said to an agent at the beginning.
const INSTRUCTIONS: &str = "hitm finds the cache lines that a program's threads fight over, and prices remedies. \
    Begin with record: it answers what is lost, on which member, why, what to do and what that gains. findings has \
    the others, advise the layouts of structures with their gain by replay, whatif another machine or placement. \
    Answers have at most 2 KB and say what was cut.";

pub(super) fn run(_: McpArgs, _: &mut Terminal) -> Result<Exit> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let service = Server.serve(rmcp::transport::stdio()).await;
        let service = service.map_err(|error| anyhow!("found no client: {error}"))?;
        service.waiting().await?;
        Ok(Exit::Done)
    })
}

/// The tools, without state: recordings are files.
#[derive(Debug, Clone)]
struct Server;

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("hitm", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tools::all().into_iter().map(|tool| tool.description);
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = tools::all().into_iter().find(|tool| tool.description.name == request.name);
        let Some(tool) = tool else {
            return Err(ErrorData::invalid_params(format!("no tool {}", request.name), None));
        };
        let arguments: JsonObject = request.arguments.unwrap_or_default();
        let answered = spawn_blocking(move || (tool.call)(arguments)).await;
        let answered = answered.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let result = match answered {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(error) => {
                let text = answer::cut(&format!("{error:#}"));
                CallToolResult::error(vec![ContentBlock::text(text)])
            }
        };
        Ok(result.into())
    }
}
