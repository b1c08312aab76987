export async function drawCharts(_results: unknown, _machine: string) {}
