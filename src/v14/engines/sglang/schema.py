"""`GET /v14/openapi.json`: FastAPI's own description of the memory's routes, without SGLang's."""

from typing import Any

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi

import v14


def schema(*routers: APIRouter) -> dict[str, Any]:
    """The OpenAPI document of all routes of these routers."""
    return get_openapi(
        title="sglang-v14",
        version=v14.__version__,
        summary="What a namespace holds, and why a request recalled what it did.",
        routes=[route for router in routers for route in router.routes],
    )


def schema_router(*routers: APIRouter) -> APIRouter:
    """The route that gives the document of these routers."""
    routes = APIRouter(prefix="/v14")

    @routes.get("/openapi.json", include_in_schema=False)
    async def document() -> dict[str, Any]:
        """The OpenAPI document."""
        return schema(*routers)

    return routes
