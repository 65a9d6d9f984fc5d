"""What one call and one session may use."""

from pydantic import BaseModel, ConfigDict, Field

MIB = 1024 * 1024


class Limits(BaseModel):
    """Limits of a session. Every one is enforced from outside the guest's program."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wall_seconds: float = Field(default=20.0, gt=0, le=86_400)
    """Longest wall time of one call, in seconds; the call is killed from outside at that moment."""
    cpu_seconds: int = Field(default=20, gt=0, le=86_400)
    """Most CPU time of one call, in whole seconds."""
    memory_bytes: int = Field(default=2048 * MIB, ge=64 * MIB)
    """Most memory that one process of the session may allocate beyond what the sandbox itself holds. With a memory
    cgroup, all processes of a session together may hold twice that (state before and after a call) and the workspace.
    """
    processes: int = Field(default=32, ge=4, le=4096)
    """Most processes and threads of one session. Exact with a control group; without one, a session and its branches
    together may have some hundreds more."""
    open_files: int = Field(default=256, ge=128, le=65_536)
    """Most open file descriptors of one process."""
    file_bytes: int = Field(default=64 * MIB, ge=0)
    """Largest single file."""
    workspace_bytes: int = Field(default=128 * MIB, ge=MIB)
    """Size of the private workspace."""
    workspace_files: int = Field(default=2048, ge=16)
    """Most files and folders in the workspace."""
    output_bytes: int = Field(default=MIB, ge=1024, le=64 * MIB)
    """Most bytes kept of stdout, and again of stderr; the rest is counted and dropped."""
    pictures: int = Field(default=16, ge=0, le=1024)
    """Most pictures returned by one call; further ones are counted and dropped."""
    picture_pixels: int = Field(default=12_800_000, ge=1024)
    """Most pixels of one returned picture; a larger one is scaled down to it."""
    total_pixels: int = Field(default=64_000_000, ge=1024)
    """Most pixels of all pictures of one call together; further pictures are counted and dropped."""
