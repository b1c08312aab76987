import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException, Logger } from '@nestjs/common'
import { HttpAdapterHost } from '@nestjs/core'

@Catch()
export class AllExceptionsFilter implements ExceptionFilter {
  private readonly logger = new Logger(AllExceptionsFilter.name)

  constructor(private readonly httpAdapterHost: HttpAdapterHost) {}

  catch(exception: unknown, host: ArgumentsHost): void {
    const { httpAdapter } = this.httpAdapterHost
    httpAdapter.reply(host.switchToHttp().getResponse(), this.describe(exception), 400)
  }

  private describe(exception: unknown) {
    if (exception instanceof HttpException) {
      const response = exception.getResponse() as string | { message: string | string[] }
      const message = typeof response === 'string' ? response : response.message
      return { error: exception.getStatus(), message: [message].flat().join(', ') }
    }
    this.logger.error(exception)
    return { error: 500, message: 'internal server error' }
  }
}
