"""The protocol without Kafka: the same machines as in a service, over logs in memory, one step at a time."""

from .runs import played, run
from .story.file import load_story
from .story.play import play_story
from .world.broker_log import SimBroker, SimStored
from .world.process import Process
from .world.world import World
from .world.world_plan import AgentPlan, App, Op, WorldPlan, make_plan
