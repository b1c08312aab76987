/**
 * NestJS on its Fastify adapter and TypeORM, as their documentation recommends:
 * https://docs.nestjs.com/http/performance (the adapter; its options are Fastify's, such as the logger)
 * https://docs.nestjs.com/techniques/validation (ValidationPipe with class-validator)
 * https://docs.nestjs.com/guards and https://docs.nestjs.com/security/authentication (the token, the global guard)
 * https://docs.nestjs.com/exception-filters#catch-everything
 * https://docs.nestjs.com/techniques/database (TypeOrmModule, repositories)
 * https://docs.nestjs.com/fundamentals/lifecycle-events#application-shutdown
 */
import { ValidationPipe } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify'
import { AppModule } from './app.module.js'

const app = await NestFactory.create<NestFastifyApplication>(AppModule, new FastifyAdapter({ logger: true }))
app.useGlobalPipes(new ValidationPipe({ transform: true, whitelist: true, errorHttpStatusCode: 422 }))
app.enableShutdownHooks()
await app.listen(Number(process.env.PORT), process.env.HOST ?? '127.0.0.1')
