"""Reserves the rings of the application mail, whose target is pull, with asyncio, until Ctrl-C or SIGTERM."""

import asyncio
import signal

import clockd


async def send_mail(ring: clockd.Ring) -> None:
    print(ring.business_id, ring.payload, flush=True)  # the work


async def main() -> None:
    async with clockd.AsyncClient() as client:
        worker = client.consumer("mail", send_mail, pull=True, concurrency=16)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, worker.stop)
        await worker.run()


asyncio.run(main())
