"""A fake stage beside a test that blocks."""

import asyncio
import threading


class StageThread:
    """Turns the loop of a fake stage, from here to `stop`."""

    def __init__(self, stage):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.stage = stage
        self.call(self.stage.start)

    def call(self, work, *given):
        async def run():
            done = work(*given)
            return await done if asyncio.iscoroutine(done) else done

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(20)

    def stop(self):
        self.call(self.stage.die)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
